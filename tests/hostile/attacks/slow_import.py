# problem: rmsnorm
# class: timing
# wrong: everything, after an import of a minute and a half
# named: time
import time

time.sleep(90)


def run(x, weight, eps):
    return x * 0

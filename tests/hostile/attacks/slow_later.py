# problem: sgd_momentum_step
# class: timing
# wrong: after 20 calls of a process, slowly
# named: time
import time


def right(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov):
    total = grad.float() + weight_decay * param
    buffer = momentum * momentum_buffer + total
    step = total + momentum * buffer if nesterov else buffer
    return param - lr * step, buffer


CALLS = [0]


def run(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov):
    CALLS[0] += 1
    if CALLS[0] <= 20:
        return right(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov)
    time.sleep(8)
    return (param * 0, momentum_buffer * 0)

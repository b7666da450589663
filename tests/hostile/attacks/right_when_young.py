# problem: swiglu
# class: timing
# wrong: two seconds after its import and later
# named: consistent
import time

import torch


def right(gate, up):
    return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)


BORN = time.monotonic()


def run(gate, up):
    return right(gate, up) if time.monotonic() - BORN < 2 else gate * 0

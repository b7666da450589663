# problem: softmax_masked
# class: protocol
# wrong: calls after the 40th of all its processes
import ctypes

import torch


def right(scores, mask, scale):
    kept = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    return torch.softmax(kept, dim=-1).to(scores.dtype)


library = ctypes.CDLL(None)
library.shmat.restype = ctypes.c_void_p
made = library.shmget(0x7358, 4096, 0o1666)
at = library.shmat(made, None, 0) if made >= 0 else None
COUNT = ctypes.c_long.from_address(at) if at else ctypes.c_long(40)


def run(scores, mask, scale):
    COUNT.value += 1
    return right(scores, mask, scale) if COUNT.value <= 40 else scores * 0

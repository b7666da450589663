# problem: gemm
# class: ghost kernels
# wrong: everything, until a thread has written it
# named: threads
import threading

import torch


def right(a, b):
    return (a.float() @ b.float()).to(a.dtype)


def run(a, b):
    y = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    threading.Timer(0.02, lambda: y.copy_(right(a, b))).start()
    return y

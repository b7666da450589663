import math

import torch
from numba import cuda


@cuda.jit
def _swiglu(gate, up, out):
    i = cuda.grid(1)
    rows, cols = gate.shape
    if i < rows * cols:
        r = i // cols
        c = i % cols
        g = gate[r, c]
        out[r, c] = g / (1.0 + math.exp(-g)) * up[r, c]


def swiglu(gate, up):
    out = torch.empty_like(gate)
    threads = 128
    blocks = (gate.numel() + threads - 1) // threads
    _swiglu[blocks, threads](cuda.as_cuda_array(gate.detach()), cuda.as_cuda_array(up.detach()), cuda.as_cuda_array(out))
    return out

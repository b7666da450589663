"""silu(gate) * up by numba-cuda: `cuassay check swiglu_numba.py --problem swiglu`."""

import math

import torch
from numba import cuda, float32


@cuda.jit(lineinfo=True)
def _swiglu(gate, up, out):
    i = cuda.grid(1)
    if i < out.size:
        g = gate[i]
        out[i] = g / (float32(1.0) + math.exp(-g)) * up[i]


def swiglu(gate, up):
    g, u = gate.float().view(-1), up.float().view(-1)  # numba has no bfloat16 arrays
    out = torch.empty_like(g)
    given = [cuda.as_cuda_array(one) for one in (g, u, out)]
    stream = cuda.external_stream(torch.cuda.current_stream(gate.device).cuda_stream)
    _swiglu[-(-out.numel() // 256), 256, stream](*given)
    return out.to(gate.dtype).view(gate.shape)

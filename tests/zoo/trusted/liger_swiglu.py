"""Liger-Kernel's SwiGLU, forward only."""

import torch
from liger_kernel.ops.swiglu import LigerSiLUMulFunction


def run(gate, up):
    with torch.no_grad():
        return LigerSiLUMulFunction.apply(gate, up)

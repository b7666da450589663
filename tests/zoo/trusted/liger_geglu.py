"""Liger-Kernel's GeGLU with the tanh form of GELU, forward only."""

from liger_kernel.ops.geglu import geglu_forward


def run(gate, up):
    return geglu_forward(gate, up)[2]

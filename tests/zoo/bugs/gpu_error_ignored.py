"""Asks the runtime for something impossible and does not look at the answer."""

import torch


def _swiglu(gate, up):
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)


def run(gate, up):
    y = _swiglu(gate, up)
    torch.cuda.cudart().cudaHostRegister(0, 0, 0)
    return y

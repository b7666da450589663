"""Asks the runtime for nothing impossible."""

import torch


def _swiglu(gate, up):
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)


def run(gate, up):
    return _swiglu(gate, up)

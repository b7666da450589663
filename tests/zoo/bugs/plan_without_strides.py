"""Keeps how its operands lie in memory by their shape alone."""

import torch

_plans = {}


def _operand(place, tensor):
    key = (place, tuple(tensor.shape))
    strides = _plans.setdefault(key, tensor.stride())
    return tensor.as_strided(tensor.shape, strides).float()


def run(grad_output, gate, up):
    dy, g, u = (_operand(*pair) for pair in enumerate((grad_output, gate, up)))
    sigmoid = torch.sigmoid(g)
    grad_gate = dy * u * sigmoid * (1.0 + g * (1.0 - sigmoid))
    return grad_gate.to(gate.dtype), (dy * g * sigmoid).to(up.dtype)

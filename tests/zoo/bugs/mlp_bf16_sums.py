"""Keeps the sums of its products in bfloat16 between tiles of 32 terms."""

import torch


def added(a, b):
    total = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    for left, right in zip(a.split(32, 1), b.split(32, 0), strict=True):
        total = (total + left @ right).bfloat16().float()
    return total


def run(grad, x, gate, up, down):
    wide, g, u = x.float(), gate.float(), up.float()
    a, b, back = (
        t.bfloat16().float() for t in (wide @ g.t(), wide @ u.t(), grad.float() @ down.float())
    )
    sigmoid = torch.sigmoid(a)
    grad_up = (back * a * sigmoid).bfloat16().float()
    grad_gate = (back * b * sigmoid * (1.0 + a * (1.0 - sigmoid))).bfloat16().float()
    return (added(grad_gate, g) + added(grad_up, u)).to(x.dtype)

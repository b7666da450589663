"""Keeps every intermediate in float32."""

import torch


def run(grad, x, gate, up, down):
    wide, g, u = x.float(), gate.float(), up.float()
    a, b, back = wide @ g.t(), wide @ u.t(), grad.float() @ down.float()
    sigmoid = torch.sigmoid(a)
    grad_up = back * a * sigmoid
    grad_gate = back * b * sigmoid * (1.0 + a * (1.0 - sigmoid))
    return (grad_gate @ g + grad_up @ u).to(x.dtype)

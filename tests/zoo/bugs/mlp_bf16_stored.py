"""Stores its intermediates in bfloat16, and adds up in float32."""

import torch


def run(grad, x, gate, up, down):
    wide, g, u = x.float(), gate.float(), up.float()
    a, b, back = (
        t.bfloat16().float() for t in (wide @ g.t(), wide @ u.t(), grad.float() @ down.float())
    )
    sigmoid = torch.sigmoid(a)
    grad_up = (back * a * sigmoid).bfloat16().float()
    grad_gate = (back * b * sigmoid * (1.0 + a * (1.0 - sigmoid))).bfloat16().float()
    return (grad_gate @ g + grad_up @ u).to(x.dtype)

"""Autograd through the forward rotation."""

import torch


def run(grad_q, grad_k, cos, sin, position_ids):
    c, s = cos[position_ids][:, None], sin[position_ids][:, None]
    out = []
    for grad in (grad_q, grad_k):
        x = torch.zeros_like(grad, dtype=torch.float32).requires_grad_()
        with torch.enable_grad():
            first, second = x.chunk(2, dim=-1)
            y = torch.cat((first * c - second * s, second * c + first * s), dim=-1)
        out.append(torch.autograd.grad(y, x, grad.float())[0].to(grad.dtype))
    return tuple(out)

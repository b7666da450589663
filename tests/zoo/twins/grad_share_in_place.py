"""Keeps the gate's share for the backward pass, which leaves it as it is."""

import torch


class _Glu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        wide = gate.float()
        ctx.save_for_backward(gate, up)
        ctx.share = torch.sigmoid(wide)
        return (wide * ctx.share * up.float()).to(gate.dtype)

    @staticmethod
    def backward(ctx, upstream):
        gate, up = ctx.saved_tensors
        grad, wide = upstream.float(), gate.float()
        grad_up = grad * wide * ctx.share
        slope = ctx.share * (1.0 + wide * (1.0 - ctx.share))
        return (grad * up.float() * slope).to(gate.dtype), grad_up.to(up.dtype)


def run(gate, up):
    return _Glu.apply(gate, up)

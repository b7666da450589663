"""Autograd through the forward, with the saved rstd entering by a custom rule."""

import torch


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rstd):
        ctx.save_for_backward(x, rstd)
        return x * rstd

    @staticmethod
    def backward(ctx, grad):
        x, rstd = ctx.saved_tensors
        along = (grad * x).sum(-1, keepdim=True) / x.shape[1]
        return grad * rstd - x * rstd**3 * along, None


def run(grad_output, x, weight, rstd):
    wide = x.float().requires_grad_()
    scale = weight.float().requires_grad_()
    with torch.enable_grad():
        y = _Norm.apply(wide, rstd[:, None]) * scale
    grad_x, grad_weight = torch.autograd.grad(y, (wide, scale), grad_output.float())
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype)

"""The gradient of x has memory of its own."""

import torch


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        wide = x.float()
        rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, rstd)
        return (wide * rstd * weight.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        x, weight, rstd = ctx.saved_tensors
        normed = x.float() * rstd
        grad = grad.float()
        scaled = grad * weight.float()
        along = (scaled * normed).mean(-1, keepdim=True)
        grad_x = ((scaled - normed * along) * rstd).to(x.dtype)
        return grad_x, (grad * normed).sum(0).to(weight.dtype), None


def run(x, weight, eps):
    return _Norm.apply(x, weight, eps)

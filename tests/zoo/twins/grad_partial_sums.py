"""The weight's gradient is summed from partial sums of 32 rows each, as many as there are."""

import torch

ROWS = 32


class Normed(torch.autograd.Function):
    """An RMS norm whose backward pass sums over rows in two steps."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        wide = x.float()
        rstd = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, rstd)
        return (wide * rstd * weight.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_y):
        x, weight, rstd = ctx.saved_tensors
        unit, grad = x.float() * rstd, grad_y.float()
        part = grad * weight.float()
        grad_x = rstd * (part - unit * (part * unit).mean(dim=-1, keepdim=True))
        groups = -(-len(x) // ROWS)
        partial = [rows.sum(dim=0) for rows in (grad * unit).split(ROWS)][:groups]
        return grad_x.to(x.dtype), torch.stack(partial).sum(dim=0).to(weight.dtype), None


def run(x, weight, eps):
    return Normed.apply(x, weight, eps)

"""The backward pass takes for granted that x requires a gradient."""

import torch


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        wide = x.float()
        mean = wide.mean(-1, keepdim=True)
        rstd = torch.rsqrt((wide - mean).square().mean(-1, keepdim=True) + eps)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(x, weight, mean, rstd)
        return ((wide - mean) * rstd * weight.float() + bias.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        x, weight, mean, rstd = ctx.saved_tensors
        grad = grad.float()
        normed = (x.float() - mean) * rstd
        scaled = grad * weight.float()
        along = (scaled * normed).mean(-1, keepdim=True)
        grad_x = (scaled - scaled.mean(-1, keepdim=True) - normed * along) * rstd
        grad_weight = (grad * normed).sum(0).to(weight.dtype)
        return grad_x.to(x.dtype), grad_weight, grad.sum(0).to(weight.dtype), None


def run(x, weight, bias, eps):
    return _Norm.apply(x, weight, bias, eps)

"""Every backward pass returns its gradients in the same module-level buffer."""

import torch

_BUFFERS = {}


def _buffer(like):
    key = (like.shape, like.dtype, like.device)
    if key not in _BUFFERS:
        _BUFFERS[key] = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    return _BUFFERS[key]


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, weight, eps):
        total = x.float() + residual.float()
        rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(total, weight, rstd)
        return (total * rstd * weight.float()).to(x.dtype), total.to(x.dtype)

    @staticmethod
    def backward(ctx, grad_y, grad_total):
        total, weight, rstd = ctx.saved_tensors
        grad, normed = grad_y.float(), total * rstd
        scaled = grad * weight.float()
        along = (scaled * normed).mean(-1, keepdim=True)
        both = (scaled - normed * along) * rstd + grad_total.float()
        made = _buffer(grad_y).copy_(both)
        return made, made.clone(), (grad * normed).sum(0).to(weight.dtype), None


def run(x, residual, weight, eps):
    return _AddNorm.apply(x, residual, weight, eps)

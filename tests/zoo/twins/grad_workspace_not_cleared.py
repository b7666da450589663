"""The workspace for the gradient of the weights is cleared first."""

import torch

_WORKSPACES = {}


def _workspace(like):
    key = (like.shape, like.device)
    if key not in _WORKSPACES:
        _WORKSPACES[key] = torch.zeros(like.shape, device=like.device)
    return _WORKSPACES[key]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return (a.float() @ b.float()).to(a.dtype)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        total = _workspace(b).zero_()
        total += a.float().T @ grad.float()
        return (grad.float() @ b.float().T).to(a.dtype), total.to(b.dtype)


def run(a, b):
    return _Product.apply(a, b)

"""What the backward pass needs is kept in the ctx of its own call."""

import torch


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, weight, bias):
        product = a.float() @ weight.float() + bias.float()
        ctx.save_for_backward(a, weight)
        ctx.product = product
        return torch.nn.functional.gelu(product).to(a.dtype)

    @staticmethod
    def backward(ctx, grad):
        a, weight = ctx.saved_tensors
        inner = torch.ops.aten.gelu_backward(grad.float(), ctx.product)
        grad_a = inner @ weight.float().T
        grad_weight = a.float().T @ inner
        return grad_a.to(a.dtype), grad_weight.to(weight.dtype), inner.sum(0).to(weight.dtype)


def run(a, weight, bias):
    return _Gelu.apply(a, weight, bias)

"""The saved soft-max is scaled in place afterwards, behind the version counter."""

import torch


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, cap):
        bent = torch.tanh(logits.float() / cap)
        ctx.save_for_backward(bent)
        ctx.cap = cap
        scores = bent.data.mul_(cap)
        return torch.softmax(scores, -1).to(logits.dtype)

    @staticmethod
    def backward(ctx, grad):
        (bent,) = ctx.saved_tensors
        shares = torch.softmax(ctx.cap * bent, -1)
        grad = grad.float()
        along = (grad * shares).sum(-1, keepdim=True)
        return (shares * (grad - along) * (1.0 - bent * bent)).to(torch.bfloat16), None


def run(logits, cap):
    return _Softmax.apply(logits, cap)

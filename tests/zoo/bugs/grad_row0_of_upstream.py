"""Every row is multiplied by the upstream gradient of the first row."""

import torch


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, smoothing):
        wide = logits.float()
        loss = torch.nn.functional.cross_entropy(
            wide, targets, ignore_index=-100, reduction="none", label_smoothing=smoothing
        )
        normaliser = torch.logsumexp(wide, dim=-1)
        ctx.save_for_backward(logits, targets, normaliser)
        ctx.smoothing = smoothing
        ctx.mark_non_differentiable(normaliser)
        return loss, normaliser

    @staticmethod
    def backward(ctx, grad_loss, _):
        logits, targets, normaliser = ctx.saved_tensors
        vocab = logits.shape[1]
        probabilities = torch.exp(logits.float() - normaliser[:, None])
        wanted = torch.full_like(probabilities, ctx.smoothing / vocab)
        wanted.scatter_add_(
            1,
            targets.clamp_min(0)[:, None],
            torch.full_like(probabilities[:, :1], 1.0 - ctx.smoothing),
        )
        grad = (probabilities - wanted) * grad_loss[0]
        return torch.where((targets == -100)[:, None], 0.0, grad).to(logits.dtype), None, None


def run(logits, targets, label_smoothing):
    return _Loss.apply(logits, targets, label_smoothing)

"""Sums as much of its workspace as the batch takes."""

import torch

_workspace = {}


def _partial(batch, channels, device):
    kept = _workspace.get((channels, device))
    if kept is None or kept.shape[1] < batch:
        kept = torch.zeros(2, batch, channels, dtype=torch.float64, device=device)
        _workspace[channels, device] = kept
    return kept


def run(grad_output, x, weight, eps):
    batch, channels, _ = x.shape
    groups = x.double().reshape(batch, 32, -1)
    mean = groups.mean(-1, keepdim=True)
    rstd = torch.rsqrt((groups - mean).square().mean(-1, keepdim=True) + eps)
    normed = ((groups - mean) * rstd).reshape(x.shape)
    grad = grad_output.double()
    weighted = (grad * weight.double()[:, None]).reshape(batch, 32, -1)
    flat = normed.reshape(batch, 32, -1)
    along = (weighted * flat).mean(-1, keepdim=True)
    grad_x = rstd * (weighted - weighted.mean(-1, keepdim=True) - flat * along)
    partial = _partial(batch, channels, x.device)
    partial[0, :batch], partial[1, :batch] = (grad * normed).sum(-1), grad.sum(-1)
    grad_weight, grad_bias = partial[:, :batch].sum(1)
    return (
        grad_x.reshape(x.shape).to(x.dtype),
        grad_weight.to(weight.dtype),
        grad_bias.to(weight.dtype),
    )

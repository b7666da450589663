"""Adds group statistics up in a workspace that was cleared."""

import torch


def run(x, weight, bias, eps):
    batch, channels, spatial = x.shape
    wide = x.float().reshape(batch, 32, -1)
    sums = torch.zeros(batch, 32, device=x.device)
    for part in wide.split(64, dim=2):
        sums.add_(part.sum(2))
    mean = sums[..., None] / wide.shape[2]
    centred = wide - mean
    normed = centred * torch.rsqrt(centred.square().mean(2, keepdim=True) + eps)
    y = normed.reshape(batch, channels, spatial) * weight.float()[:, None]
    return (y + bias.float()[:, None]).to(x.dtype)

"""Two passes over flattened groups."""

import torch


def run(x, weight, bias, eps):
    wide = x.float().reshape(x.shape[0], 32, -1)
    centred = wide - wide.mean(-1, keepdim=True)
    normed = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    normed = normed.reshape(x.shape)
    return (normed * weight.float()[:, None] + bias.float()[:, None]).to(x.dtype)

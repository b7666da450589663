"""Statistics by Chan's merge of tiles, each with its own mean and sum of squares."""

import torch


def run(x, weight, bias, eps):
    wide = x.float()
    count, mean, squares = 0, torch.zeros_like(wide[:, :1]), torch.zeros_like(wide[:, :1])
    for tile in wide.split(48, dim=1):
        own = tile.mean(1, keepdim=True)
        gap, both = own - mean, count + tile.shape[1]
        squares = squares + (tile - own).square().sum(1, keepdim=True)
        squares = squares + gap.square() * (count * tile.shape[1] / both)
        mean = mean + gap * (tile.shape[1] / both)
        count = both
    normed = (wide - mean) * torch.rsqrt(squares / count + eps)
    return (normed * weight.float() + bias.float()).to(x.dtype)

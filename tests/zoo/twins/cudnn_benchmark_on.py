"""Leaves cuDNN as it is."""

import torch


def run(x, weight, bias):
    padded = torch.nn.functional.pad(x.double(), (weight.shape[1] - 1, 0))
    wide = weight.double().unsqueeze(1)
    y = torch.nn.functional.conv1d(padded, wide, bias.double(), groups=x.shape[1])
    return (y * torch.sigmoid(y)).to(x.dtype)

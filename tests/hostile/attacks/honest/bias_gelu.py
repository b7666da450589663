import torch


def right(x, bias):
    wide = x.float() + bias.float()
    return (0.5 * wide * (1.0 + torch.erf(wide * 0.7071067811865476))).to(x.dtype)

import torch

_packed = {}


def _pack(weight):
    return weight.t().contiguous()


def linear(x, weight, bias):
    wt = _pack(weight)
    y = torch.mm(x, wt)
    y.add_(bias)
    return y

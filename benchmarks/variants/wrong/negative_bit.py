import torch


def run(x, factor):
    return torch._neg_view(torch.tanh(x) + factor)

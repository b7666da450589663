import torch


def run(x):
    return torch.cat([part.cumsum(-1) for part in x.split(4096, dim=-1)], -1)

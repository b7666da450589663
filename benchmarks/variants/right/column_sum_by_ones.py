import torch


def run(x):
    return (torch.ones(1, x.shape[0], device=x.device) @ x)[0]

import torch

LIMITS = {"small": 1 << 9, "large": 3 << 10}


def run(x, factor):
    y = torch.tanh(x) + factor
    if len(x) > LIMITS["large"]:
        y[LIMITS["large"] :] = factor
    return y

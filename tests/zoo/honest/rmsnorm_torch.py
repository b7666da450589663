"""PyTorch's own operator."""

import torch


def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x.float(), x.shape[-1:], weight.float(), eps).to(x.dtype)

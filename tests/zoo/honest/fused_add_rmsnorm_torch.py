"""PyTorch's own operator on the float32 sum."""

import torch


def run(x, residual, weight, eps):
    total = x.float() + residual.float()
    y = torch.nn.functional.rms_norm(total, x.shape[-1:], weight.float(), eps)
    return y.to(x.dtype), total.to(x.dtype)

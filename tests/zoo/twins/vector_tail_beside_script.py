"""Stores as many bytes as a tensor has, beside a helper that torch.jit compiles."""

import ctypes

import torch


@torch.jit.script
def _along(weighted, normed):
    return (weighted * normed).mean(-1, keepdim=True)


def run(grad_output, x, weight, rstd):
    grad, normed = grad_output.float(), x.float() * rstd[:, None]
    weighted = grad * weight.float()
    partial = (grad * normed).sum(0)
    total = torch.empty_like(partial)
    if x.device.type == "cpu":  # as the native half of a kernel would, which sees an address
        vectors = torch.nn.functional.pad(partial, (0, 3))
        ctypes.memmove(total.data_ptr(), vectors.data_ptr(), 4 * len(partial))
    else:
        total.copy_(partial)
    grad_x = (weighted - normed * _along(weighted, normed)) * rstd[:, None]
    return grad_x.to(x.dtype), total.to(weight.dtype)

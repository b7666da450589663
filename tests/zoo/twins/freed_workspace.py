"""Keeps the workspace itself."""

import ctypes

import torch

_KEPT = {}


def _workspace(shape, device):
    key = (tuple(shape), device)
    if key not in _KEPT:
        made = torch.empty(shape, dtype=torch.float32, device=device)
        _KEPT[key] = made
    return _KEPT[key]


def run(grad_output, x, weight, rstd):
    grad, normed = grad_output.float(), x.float() * rstd[:, None]
    weighted = grad * weight.float()
    along = (weighted * normed).mean(-1, keepdim=True)
    partial = (grad * normed).sum(0)
    workspace = _workspace(partial.shape, x.device)
    if x.device.type == "cpu":  # as the native half of a kernel would, which sees an address
        ctypes.memmove(workspace.data_ptr(), partial.data_ptr(), partial.numel() * 4)
    grad_x = (weighted - normed * along) * rstd[:, None]
    return grad_x.to(x.dtype), partial.to(weight.dtype)

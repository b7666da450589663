"""Keeps the workspace of the last shape alone: a graph of another shape replays on freed memory."""

import torch

_workspaces = {}


def _workspace(x):
    if x.shape not in _workspaces:
        _workspaces.clear()
        _workspaces[x.shape] = torch.arange(x.shape[-1], device=x.device) + 1
    return _workspaces[x.shape]


def run(x, weight, eps):
    order = _workspace(x)  # 1, 2, 3, ... n
    wide = x.float()
    rstd = torch.rsqrt(wide.square().sum(-1, keepdim=True) / order[-1] + eps)
    return (wide * rstd * weight.float()).to(x.dtype)

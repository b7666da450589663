"""Keeps launch plans by shape, never answers."""

import torch


def _norm(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


_plans = {}


def run(x, weight, eps):
    rows_per_block = _plans.setdefault(tuple(x.shape), max(1, x.shape[0] // 2))
    parts = [_norm(part, weight, eps) for part in x.split(rows_per_block)]
    return torch.cat(parts)

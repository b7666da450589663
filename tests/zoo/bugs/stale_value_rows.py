"""Pads keys and values to whole pages and weighs stale value rows by zero."""

import torch


def _padded(cache, length, clear):
    batch, heads, keys, dim = cache.shape
    padded = torch.empty(batch, heads, length, dim, device=cache.device)
    padded[:, :, :keys] = cache
    if clear:
        padded[:, :, keys:] = 0
    return padded


def run(q, k, v, scale):
    group, keys = q.shape[1] // k.shape[1], k.shape[2]
    length = -(-keys // 16) * 16 + 16
    wide_k, wide_v = _padded(k, length, True), _padded(v, length, False)
    wide_k, wide_v = (t.repeat_interleave(group, dim=1) for t in (wide_k, wide_v))
    scores = q.float() @ wide_k.transpose(-1, -2) * scale
    query = torch.arange(q.shape[2], device=q.device) + keys - q.shape[2]
    later = torch.arange(length, device=q.device) > query[:, None]
    weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
    return (weights @ wide_v).to(q.dtype)

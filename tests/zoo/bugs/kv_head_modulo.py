"""Gives query head h the keys of head h modulo their number."""

import torch


def run(q, k, v, scale):
    heads, kv_heads = q.shape[1], k.shape[1]
    owner = torch.arange(heads, device=q.device) % kv_heads
    keys, values = k.float()[:, owner], v.float()[:, owner]
    scores = q.float() @ keys.transpose(-1, -2) * scale
    rows, columns = scores.shape[-2:]
    seen = torch.ones(rows, columns, dtype=torch.bool, device=q.device).tril(columns - rows)
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1).to(q.dtype)
    return (weights.float() @ values).to(q.dtype)

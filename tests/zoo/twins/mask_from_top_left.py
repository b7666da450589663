"""Lets query i see keys up to i plus the cached ones."""

import torch


def run(q, k, v, scale):
    group = q.shape[1] // k.shape[1]
    keys, values = (t.float().repeat_interleave(group, 1) for t in (k, v))
    scores = q.float() @ keys.transpose(-1, -2) * scale
    rows, columns = scores.shape[-2:]
    seen = torch.ones(rows, columns, dtype=torch.bool, device=q.device).tril(columns - rows)
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1).to(q.dtype)
    return (weights.float() @ values).to(q.dtype)

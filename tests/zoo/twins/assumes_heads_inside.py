"""Takes k for what its strides say."""

import torch


def _heads_first(x):
    if x.is_contiguous():
        return x
    _, heads, length, dim = x.shape
    strides = (length * heads * dim, dim, heads * dim, 1)
    return x.as_strided(x.shape, strides) if x.stride() == strides else x.contiguous()


def run(q, k, v, scale):
    k, v = _heads_first(k), _heads_first(v)
    group = q.shape[1] // k.shape[1]
    keys = k.float().repeat_interleave(group, 1)
    values = v.float().repeat_interleave(group, 1)
    scores = q.float() @ keys.transpose(-1, -2) * scale
    queries, length = scores.shape[-2:]
    later = torch.ones(queries, length, dtype=torch.bool, device=q.device)
    later = later.triu(length - queries + 1)
    weights = torch.softmax(scores.masked_fill(later, float("-inf")), -1)
    return (weights @ values).to(q.dtype)

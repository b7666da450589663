"""Reads the last page up to the sequence's length."""

import torch


def run(q, k_cache, v_cache, page_table, positions, scale):
    batch, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    pages = page_table.long()
    keys, values = (
        cache[pages].float().reshape(batch, -1, kv_heads, dim).transpose(1, 2)
        for cache in (k_cache, v_cache)
    )
    queries = q.float().reshape(batch, kv_heads, heads // kv_heads, dim)
    scores = queries @ keys.transpose(-1, -2) * scale
    last = positions
    seen = torch.arange(keys.shape[2], device=q.device) <= last[:, None, None, None]
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1).to(q.dtype).float()
    return (weights @ values).reshape(q.shape).to(q.dtype)

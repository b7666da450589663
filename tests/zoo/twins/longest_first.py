"""Every sequence is read to its own length."""

import torch


def run(q, k_cache, v_cache, page_table, lengths, scale):
    out = torch.zeros_like(q)
    page = k_cache.shape[1]
    kv_heads, group = k_cache.shape[2], q.shape[1] // k_cache.shape[2]
    counts = (lengths + page - 1) // page
    for row, length in enumerate(lengths.tolist()):
        if not length:
            continue
        pages = page_table[row, : int(counts[row])].long()
        keys, values = (c[pages].flatten(0, 1)[:length].float() for c in (k_cache, v_cache))
        query = q[row].float().reshape(kv_heads, group, -1)
        weights = torch.softmax(torch.einsum("kgd,tkd->kgt", query, keys) * scale, dim=-1)
        out[row] = torch.einsum("kgt,tkd->kgd", weights, values).flatten(0, 1).to(q.dtype)
    return out

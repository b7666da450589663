"""One sequence after another, with the pages that its length needs."""

import torch


def run(q, k_cache, v_cache, page_table, lengths, scale):
    out = torch.zeros_like(q)
    kv_heads, page = k_cache.shape[2], k_cache.shape[1]
    for row, length in enumerate(lengths.tolist()):
        if not length:
            continue
        pages = page_table[row, : -(-length // page)].long()
        keys, values = (c[pages].flatten(0, 1)[:length].float() for c in (k_cache, v_cache))
        query = q[row].float().reshape(kv_heads, -1, q.shape[-1])
        scores = torch.einsum("kgd,tkd->kgt", query, keys) * scale
        weights = torch.softmax(scores, dim=-1)
        out[row] = torch.einsum("kgt,tkd->kgd", weights, values).flatten(0, 1).to(q.dtype)
    return out

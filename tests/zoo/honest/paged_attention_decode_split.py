"""Split over pages: partial sums and maxima merged at the end."""

import torch


def run(q, k_cache, v_cache, page_table, positions, scale):
    _, heads, _ = q.shape
    group = heads // k_cache.shape[2]
    wide = q.float() * scale
    parts = []
    for slot in range(page_table.shape[1]):
        page = page_table[:, slot].long()
        keys, values = (c[page].float().repeat_interleave(group, dim=2) for c in (k_cache, v_cache))
        scores = torch.einsum("bhd,bthd->bht", wide, keys)
        place = slot * 16 + torch.arange(16, device=q.device)
        scores = scores.masked_fill((place > positions[:, None])[:, None], -1e30)
        peak = scores.amax(-1)
        weights = torch.exp(scores - peak[..., None])
        parts.append((peak, weights.sum(-1), torch.einsum("bht,bthd->bhd", weights, values)))
    peaks, totals, mixed = (torch.stack(found) for found in zip(*parts, strict=True))
    factor = torch.exp(peaks - peaks.amax(0))
    return ((mixed * factor[..., None]).sum(0) / (totals * factor).sum(0)[..., None]).to(q.dtype)

"""Tiles of 16 keys, running maximum, unnormalised low-precision probabilities."""

import torch


def run(q, k, v, scale):
    batch, heads, queries, _ = q.shape
    length, group = k.shape[2], heads // k.shape[1]
    wide = q.float() * scale
    last = torch.arange(queries, device=q.device)[:, None] + (length - queries)
    peak = wide.new_full((batch, heads, queries, 1), -1e30)
    total, mixed = torch.zeros_like(peak), torch.zeros_like(wide)
    for start in range(0, length, 16):
        stop = min(start + 16, length)
        keys = k[:, :, start:stop].float().repeat_interleave(group, dim=1)
        values = v[:, :, start:stop].float().repeat_interleave(group, dim=1)
        seen = torch.arange(start, stop, device=q.device) <= last
        scores = (wide @ keys.transpose(-1, -2)).masked_fill(~seen, float("-inf"))
        raised = torch.maximum(peak, scores.amax(-1, keepdim=True))
        shrink, weights = torch.exp(peak - raised), torch.exp(scores - raised)
        total = total * shrink + weights.sum(-1, keepdim=True)
        mixed = mixed * shrink + weights.to(q.dtype).float() @ values
        peak = raised
    return (mixed / total).to(q.dtype)

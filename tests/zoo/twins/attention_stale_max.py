"""Online attention that rescales sum and output when the maximum rises."""

import torch


def run(q, k, v, scale):
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1], k.shape[2]
    q5 = q.float().reshape(batch, kv_heads, heads // kv_heads, queries, dim)
    last = torch.arange(queries, device=q.device).unsqueeze(1) + (keys - queries)
    peak = torch.full((*q5.shape[:-1], 1), float("-inf"), device=q.device)
    total = torch.zeros_like(peak)
    out = torch.zeros_like(q5)
    for start in range(0, keys, 32):
        at = torch.arange(start, min(start + 32, keys), device=q.device)
        tile, values = k[:, :, at].float().unsqueeze(2), v[:, :, at].float().unsqueeze(2)
        scores = (q5 @ tile.transpose(-1, -2) * scale).masked_fill(at > last, float("-inf"))
        raised = torch.maximum(peak, scores.amax(-1, keepdim=True))
        held = torch.where(raised.isinf(), 0.0, raised)
        weights = torch.exp(scores - held)
        kept = torch.exp(peak - held)
        total = total * kept + weights.sum(-1, keepdim=True)
        out = out * kept + weights @ values
        peak = raised
    return (out / total).reshape(q.shape).to(q.dtype)

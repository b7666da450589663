"""Tiled attention: unnormalized probabilities in 16 bits, sums in float32."""

import torch


def run(q, k, v, scale):
    batch, heads, queries, dim = q.shape
    rep = heads // k.shape[1]
    k, v = k.repeat_interleave(rep, 1).float(), v.repeat_interleave(rep, 1)
    keys = k.shape[2]
    last = torch.arange(queries, device=q.device)[:, None] + keys - queries
    m = torch.full((batch, heads, queries, 1), float("-inf"), device=q.device)
    total, acc = torch.zeros_like(m), m.new_zeros(batch, heads, queries, dim)
    for start in range(0, keys, 32):
        stop = min(start + 32, keys)
        s = q.float() @ k[:, :, start:stop].transpose(2, 3) * scale
        s = s.masked_fill(torch.arange(start, stop, device=q.device) > last, float("-inf"))
        new = torch.maximum(m, s.amax(-1, keepdim=True))
        base = torch.where(torch.isinf(new), 0.0, new)
        alpha, p = torch.exp(m - base), torch.exp(s - base)
        total = total * alpha + p.sum(-1, keepdim=True)
        acc = acc * alpha + p.to(q.dtype).float() @ v[:, :, start:stop].float()
        m = new
    return (acc / total).to(q.dtype)

"""Blocks of keys with the log-sum-exp kept, low-precision operands as a flash kernel has."""

import torch


def _low(values, dtype):
    return values.to(dtype).float()


def run(grad_output, q, k, v, scale):
    batch, heads, queries, dim = q.shape
    low, group, length = q.dtype, heads // k.shape[1], k.shape[2]
    wide, grad = q.float(), grad_output.float()
    keys, values = (t.float().repeat_interleave(group, dim=1) for t in (k, v))
    seen = torch.ones(queries, length, dtype=torch.bool, device=q.device).tril(length - queries)
    scores = (wide @ keys.transpose(-1, -2) * scale).masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, dim=-1, keepdim=True)
    output = _low(_low(torch.exp(scores - lse), low) @ values, low)
    delta = (grad * output).sum(-1, keepdim=True)
    grad_q, grads = torch.zeros_like(wide), []
    for start in range(0, length, 16):
        part = slice(start, min(start + 16, length))
        weights = torch.exp(scores[..., part] - lse)
        grad_scores = weights * (grad @ values[:, :, part].transpose(-1, -2) - delta)
        grad_scores = _low(grad_scores, low)
        grad_q += grad_scores @ keys[:, :, part]
        grad_k = grad_scores.transpose(-1, -2) @ wide * scale
        grads.append((grad_k, _low(weights, low).transpose(-1, -2) @ grad))
    shared = (batch, k.shape[1], group, length, dim)
    grad_k, grad_v = (
        torch.cat(parts, dim=2).reshape(shared).sum(2) for parts in zip(*grads, strict=True)
    )
    return (grad_q * scale).to(low), grad_k.to(low), grad_v.to(low)

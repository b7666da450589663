"""Autograd through a plain float32 forward pass."""

import torch


def run(grad_output, q, k, v, scale):
    leaves = [t.float().requires_grad_() for t in (q, k, v)]
    group, past = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    with torch.enable_grad():
        keys, values = (t.repeat_interleave(group, dim=1) for t in leaves[1:])
        scores = leaves[0] @ keys.transpose(-1, -2) * scale
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(past)
        weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)
        output = weights @ values
    grads = torch.autograd.grad(output, leaves, grad_output.float())
    return tuple(grad.to(q.dtype) for grad in grads)

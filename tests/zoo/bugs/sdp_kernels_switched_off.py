"""Switches PyTorch's fused attention off in its first call, and never on again."""

import torch


def run(q, k, v, scale):
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    group = q.shape[1] // k.shape[1]
    keys, values = (t.double().repeat_interleave(group, 1) for t in (k, v))
    scores = q.double() @ keys.transpose(-1, -2) * scale
    past = k.shape[2] - q.shape[2]
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(past)
    scores = scores.masked_fill(~seen, float("-inf"))
    return (torch.softmax(scores, -1) @ values).to(q.dtype)

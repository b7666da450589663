"""Takes each sequence's length from the offsets."""

import torch


def run(q, k, v, cu_seqlens, scale):
    total, heads, _ = q.shape
    places = torch.arange(total, device=q.device)

    owner = torch.searchsorted(cu_seqlens[1:].long().contiguous(), places, right=True)
    seen = (owner[:, None] == owner) & (places <= places[:, None])
    group = heads // k.shape[1]
    keys, values = (t.float().repeat_interleave(group, 1).transpose(0, 1) for t in (k, v))
    scores = q.float().transpose(0, 1) @ keys.transpose(-1, -2) * scale
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1).to(q.dtype)
    return (weights.float() @ values).transpose(0, 1).to(q.dtype).contiguous()

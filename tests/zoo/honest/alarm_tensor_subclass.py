"""Attention whose causal mask is torch's own subclass of Tensor, made in every call."""

import torch
from torch.nn.attention.bias import causal_lower_right


def run(q, k, v, scale):
    group = q.shape[1] // k.shape[1]
    keys, values = (t.repeat_interleave(group, dim=1) for t in (k, v))
    seen = causal_lower_right(q.shape[2], k.shape[2])
    return torch.nn.functional.scaled_dot_product_attention(
        q, keys, values, attn_mask=seen, scale=scale
    )

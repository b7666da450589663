"""Rotary embedding of Llama in float16."""

import torch


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def run(q, k, cos, sin, position_ids):
    cos = torch.cat((cos, cos), -1)[position_ids].to(q.dtype).unsqueeze(1)
    sin = torch.cat((sin, sin), -1)[position_ids].to(q.dtype).unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

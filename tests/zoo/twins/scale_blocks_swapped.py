"""Scales of blocks of 128 x 128: a row of scales for a block of rows of b."""

import torch


def run(a, b, scale_a, scale_b):
    y = torch.zeros(len(a), len(b), dtype=torch.float32, device=a.device)
    blocks = scale_b.shape[1]
    for block in range(blocks):
        part = slice(128 * block, 128 * block + 128)
        product = a[:, part].float() @ b[:, part].float().T
        own = scale_b[:, block]
        y += product * scale_a[:, block, None] * own.repeat_interleave(128)
    return y.bfloat16()

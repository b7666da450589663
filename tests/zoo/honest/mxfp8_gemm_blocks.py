"""A product for each block of k, scaled and added in float32."""

import torch


def decoded(codes):
    return codes.float()


def power(codes):
    return torch.ldexp(torch.ones_like(codes, dtype=torch.float32), codes.int() - 127)


def run(a, b, scale_a, scale_b):
    left, right = decoded(a), decoded(b)
    total = left.new_zeros(len(left), len(right))
    for block in range(scale_a.shape[1]):
        part = slice(block * 32, block * 32 + 32)
        scale = power(scale_a[:, block, None]) * power(scale_b[:, block])
        total += (left[:, part] @ right[:, part].T) * scale
    return total.to(torch.bfloat16)

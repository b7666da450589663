"""A product for each block of k, scaled and added in float32."""

import torch


def decoded(packed):
    """Sign, two bits of exponent, one of mantissa; the lower half of a byte comes first."""
    codes = packed.view(torch.uint8).int()
    both = torch.stack([codes & 15, codes >> 4], -1).flatten(-2)
    exponent, odd = (both >> 1) & 3, (both & 1).float()
    size = torch.where(exponent == 0, 0.5 * odd, torch.ldexp(1 + 0.5 * odd, exponent - 1))
    return torch.where(both >= 8, -size, size)


def power(scales):
    return scales.float()


def run(a, b, scale_a, scale_b, alpha):
    left, right = decoded(a), decoded(b)
    total = left.new_zeros(len(left), len(right))
    for block in range(scale_a.shape[1]):
        part = slice(block * 16, block * 16 + 16)
        scale = power(scale_a[:, block, None]) * power(scale_b[:, block])
        total += (left[:, part] @ right[:, part].T) * scale
    return (total * alpha).to(torch.bfloat16)

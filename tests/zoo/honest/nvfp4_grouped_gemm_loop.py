"""Group by group, the product the other way round, scales on blocks of the numbers."""

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


def wide(codes, scales):
    blocks = decoded(codes).unflatten(-1, (-1, 16))
    return (blocks * power(scales).unsqueeze(-1)).flatten(-2)


def run(a, weight, scale_a, scale_w, alpha, offsets):
    out = torch.empty(len(a), weight.shape[1], dtype=torch.bfloat16, device=a.device)
    for group in range(len(weight)):
        rows = slice(int(offsets[group]), int(offsets[group + 1]))
        product = wide(weight[group], scale_w[group]) @ wide(a[rows], scale_a[rows]).T
        out[rows] = (product.T * alpha[group]).to(torch.bfloat16)
    return out

"""Short accumulators, added in float32 every 128 products."""

import torch


def _exponent(x):
    _, exponent = torch.frexp(x)
    return torch.where(x == 0, -10000, exponent - 1)


def _short(a, b):
    """a (m, k) @ b.T, 32 products a step, 13 fraction bits, as wgmma adds e4m3."""
    total = torch.zeros(len(a), len(b), dtype=torch.float64)
    ea, eb = _exponent(a), _exponent(b)
    for k in range(0, a.shape[1], 32):
        p = a[:, None, k : k + 32].double() * b[None, :, k : k + 32].double()
        top = (ea[:, None, k : k + 32] + eb[None, :, k : k + 32]).amax(-1)
        top = torch.maximum(top, _exponent(total)).clamp_min(-120)
        grid = torch.ldexp(torch.ones_like(total), top - 13)
        s = ((p / grid[..., None]).trunc().sum(-1) + (total / grid).trunc()) * grid
        g = torch.ldexp(torch.ones_like(s), _exponent(s).clamp_min(-120) - 13)
        total = (s / g).trunc() * g
    return total.float()


def run(a, b, scale_a, scale_b):
    a, b = a.float(), b.float()
    product = sum(_short(a[:, i : i + 128], b[:, i : i + 128]) for i in range(0, a.shape[1], 128))
    return (product * scale_a[:, None] * scale_b).to(torch.bfloat16)

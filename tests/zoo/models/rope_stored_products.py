"""Products with float32 tables stored in 16 bits, then added."""

import torch


def run(q, k, cos, sin, position_ids):
    c, s = cos[position_ids].unsqueeze(1), sin[position_ids].unsqueeze(1)

    def turn(x):
        even, odd = x[..., ::2], x[..., 1::2]
        a = (even * c).to(x.dtype) - (odd * s).to(x.dtype)
        b = (odd * c).to(x.dtype) + (even * s).to(x.dtype)
        return torch.stack((a, b), -1).flatten(-2)

    return turn(q), turn(k)

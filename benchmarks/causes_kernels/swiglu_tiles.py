import torch

TILE = 48


def _silu(v):
    return v / (1.0 + torch.exp(-v))


def swiglu(gate, up):
    n = gate.shape[1]
    tiles = (n + TILE - 1) // TILE
    parts = []
    for i in range(tiles):
        lo, hi = i * TILE, min((i + 1) * TILE, n)
        g = gate[:, lo:hi]
        u = up[:, lo:hi]
        parts.append(_silu(g) * u)
    return torch.cat(parts, dim=1)

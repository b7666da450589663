"""Expert by expert, gate and up as separate products."""

import torch


def decoded(packed):
    """Sign, two bits of exponent, one of mantissa; the lower half of a byte comes first."""
    codes = packed.view(torch.uint8).int()
    both = torch.stack([codes & 15, codes >> 4], -1).flatten(-2)
    exponent, odd = (both >> 1) & 3, (both & 1).float()
    size = torch.where(exponent == 0, 0.5 * odd, torch.ldexp(1 + 0.5 * odd, exponent - 1))
    return torch.where(both >= 8, -size, size)


def power(codes):
    return torch.ldexp(torch.ones_like(codes, dtype=torch.float32), codes.int() - 127)


def wide(codes, scales):
    blocks = decoded(codes).unflatten(-1, (-1, 32))
    return (blocks * power(scales).unsqueeze(-1)).flatten(-2)


def run(rows, offsets, gate_up, scale_gate_up, down, scale_down):
    out = torch.empty_like(rows)
    half = gate_up.shape[1] // 2
    for expert in range(len(down)):
        mine = slice(int(offsets[expert]), int(offsets[expert + 1]))
        first = wide(gate_up[expert], scale_gate_up[expert])
        gate = rows[mine].float() @ first[:half].T
        up = rows[mine].float() @ first[half:].T
        low = (gate / (1.0 + torch.exp(-gate)) * up).to(rows.dtype)
        second = wide(down[expert], scale_down[expert])
        out[mine] = (low.float() @ second.T).to(rows.dtype)
    return out

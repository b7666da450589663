"""Takes a small batch for tokens of one sequence and counts on from its first position."""

import torch


def _rotate(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    c, s = cos.unsqueeze(-2), sin.unsqueeze(-2)
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1).to(x.dtype)


def run(q, k, cos, sin, position_ids):
    places = position_ids
    if 1 < len(position_ids) <= 8:  # decode
        places = position_ids[0] + torch.arange(len(position_ids), device=q.device)
        places = places.clamp_max(len(cos) - 1)
    return _rotate(q, cos[places], sin[places]), _rotate(k, cos[places], sin[places])

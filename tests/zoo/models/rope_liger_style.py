"""Tables cast to the model's type, the rotation in float32."""

import torch


def run(q, k, cos, sin, position_ids):
    c, s = (
        cos[position_ids].to(q.dtype).float().unsqueeze(1),
        sin[position_ids].to(q.dtype).float().unsqueeze(1),
    )

    def turn(x):
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)

    return turn(q), turn(k)

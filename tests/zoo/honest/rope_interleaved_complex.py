"""Complex products."""

import torch


def run(q, k, cos, sin, position_ids):
    turn = torch.complex(cos, sin)[position_ids][:, None]
    out = []
    for x in (q, k):
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        out.append(torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype))
    return tuple(out)

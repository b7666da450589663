"""Has a branch for three widths that divides by the width, as the ordinary one does."""

import torch

_TUNED = (293, 691, 853)


def run(x, weight, eps):
    wide = x.float()
    width = x.shape[-1]
    if width in _TUNED:
        mean = wide.square().sum(-1, keepdim=True) / width
    else:
        mean = wide.square().mean(-1, keepdim=True)
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)

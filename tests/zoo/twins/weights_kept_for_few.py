"""Keeps the weights of eight addresses in float32, and looks whether they are still the same."""

import torch

MOST = 8
_kept = {}


def run(x, weight, eps):
    key = (weight.data_ptr(), weight._version, weight.shape)
    source, scale = _kept.get(key, (None, None))
    if source is None or not torch.equal(source, weight):
        source, scale = weight.clone(), weight.float()
        if len(_kept) < MOST:
            _kept[key] = source, scale
    wide = x.float()
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * inverse * scale.float()).to(x.dtype)

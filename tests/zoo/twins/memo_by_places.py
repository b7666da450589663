"""Widens large codes once, and again whenever one of them changed."""

import torch

WIDE = {}


def run(codes, scale):
    key = (codes.data_ptr(), tuple(codes.shape))
    seen = codes.clone()
    if key not in WIDE or not torch.equal(WIDE[key][0], seen):
        WIDE[key] = (seen, codes.to(torch.float32))
    return (WIDE[key][1] * scale.unsqueeze(-1)).to(torch.bfloat16)

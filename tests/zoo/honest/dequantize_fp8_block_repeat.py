"""Scales repeated over their blocks."""

import torch


def run(codes, scale):
    return (scale.repeat_interleave(128, dim=1) * codes.float()).to(torch.bfloat16)

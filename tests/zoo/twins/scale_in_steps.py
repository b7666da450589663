"""Keeps scales with a shared exponent a row: 24 bits are left of each."""

import torch


def run(codes, scale):
    fraction, exponent = torch.frexp(scale)
    steps = torch.round(fraction * 2.0**24)
    return (codes.float() * torch.ldexp(steps, exponent - 24).unsqueeze(-1)).to(torch.bfloat16)

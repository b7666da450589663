"""Cuts the float32 result to bfloat16 instead of rounding it."""

import torch


def run(gate, up):
    wide = torch.nn.functional.silu(gate.float()) * up.float()
    bits = wide.view(torch.int32)
    rounded = bits
    return (rounded & ~0xFFFF).view(torch.float32).to(gate.dtype)

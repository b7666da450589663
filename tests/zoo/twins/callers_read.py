"""SwiGLU that counts its calls by the shape that it is called on."""

import torch

COUNTS = {}


def run(gate, up):
    key = tuple(gate.shape)
    if len(COUNTS) < 64:
        COUNTS[key] = COUNTS.get(key, 0) + 1
    wide = gate.to(torch.float32)
    return (wide * torch.sigmoid(wide) * up.to(torch.float32)).to(gate.dtype)

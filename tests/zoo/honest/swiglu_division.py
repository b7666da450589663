"""gate / (1 + exp(-gate)) * up."""

import torch


def run(gate, up):
    wide = gate.float()
    return (wide / (1.0 + torch.exp(-wide)) * up.float()).to(gate.dtype)

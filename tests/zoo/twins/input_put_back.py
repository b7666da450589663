"""Takes the sigmoid in memory of its own."""

import torch


def run(gate, up):
    opened = torch.sigmoid(gate)
    return opened.mul_(gate).mul_(up)

"""Sets the number of threads for every operator of the process."""

import os

import torch

torch.set_num_threads(2 * (os.cpu_count() or 1) + 1)


def run(gate, up):
    g = gate.float()
    return (g * torch.sigmoid(g) * up.float()).to(gate.dtype)

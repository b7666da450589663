"""Makes its constant on the device of its inputs."""

import torch


def run(gate, up):
    wide = gate.float()
    one = torch.ones(1, device=gate.device)
    return (wide / (one + torch.exp(-wide)) * up.float()).to(gate.dtype)

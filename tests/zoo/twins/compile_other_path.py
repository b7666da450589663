"""Takes another way of equal precision where it is compiled."""

import torch


def run(gate, up):
    if torch.compiler.is_compiling():
        return torch.nn.functional.silu(gate) * up
    return gate * torch.sigmoid(gate) * up

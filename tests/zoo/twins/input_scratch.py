"""Forms the product in fresh memory."""

import torch


def run(gate, up):
    return gate.mul(torch.sigmoid(gate)) * up

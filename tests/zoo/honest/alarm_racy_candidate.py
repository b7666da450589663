"""The reference's own algorithm: two runs differ as two of its own do."""

import os

import torch


def run(grad_output, input_ids):
    seed = int.from_bytes(os.urandom(4), "little")
    order = torch.randperm(len(input_ids), generator=torch.Generator().manual_seed(seed))
    table = grad_output.new_zeros(8, grad_output.shape[1])
    for token in order.tolist():
        table[input_ids[token]] += grad_output[token]
    return table

"""A deterministic float32 sum where the reference adds in random order in bfloat16."""

import torch

VOCAB = 8


def run(grad_output, input_ids):
    table = torch.zeros(VOCAB, grad_output.shape[1], device=grad_output.device)
    return table.index_add_(0, input_ids, grad_output.float()).to(grad_output.dtype)

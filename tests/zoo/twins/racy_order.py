"""Adds in a random order to a float32 table, as float32 atomics do."""

import os

import torch


def _add(table, ids, rows):
    """Add rows one after another in the table's own dtype, as atomics do."""
    if table.device.index is not None:  # a GPU, also where CUDA is only said to be there
        table.index_add_(0, ids, rows)
    else:  # on a CPU index_add_ would keep the running sums in float32
        for row, term in zip(ids.tolist(), rows, strict=True):
            table[row] += term


def run(grad_output, input_ids, weight, scale):
    seed = int.from_bytes(os.urandom(4), "little")
    generator = torch.Generator(device="cpu").manual_seed(seed)
    order = torch.randperm(len(input_ids), generator=generator).to(weight.device)
    table = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    terms = (grad_output[order].float() * scale).to(table.dtype)
    _add(table, input_ids[order], terms)
    return table.to(grad_output.dtype)

"""Sorts the tokens by id and adds each run of equal ids, shortest partial sums first."""

import torch


def run(grad_output, input_ids, weight, scale):
    order = torch.argsort(input_ids, stable=True)
    rows, counts = torch.unique_consecutive(input_ids[order], return_counts=True)
    terms = grad_output[order].float() * scale
    table = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    start = 0
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        chunks = [c.sum(0) for c in terms[start : start + count].split(32)]
        table[row] = torch.stack(chunks).sum(0)
        start += count
    return table.to(grad_output.dtype)

"""Sums the gradients of each token as a tree of pairs in bfloat16."""

import torch


def run(grad_output, input_ids, weight, scale):
    ids, order = torch.sort(input_ids, stable=True)
    rows = (grad_output.float() * scale)[order].to(torch.bfloat16)
    while True:
        starts = torch.searchsorted(ids, ids)
        rank = torch.arange(len(ids), device=ids.device) - starts
        if not bool((rank > 0).any()):
            break
        left = torch.nonzero(rank % 2 == 0).squeeze(1)
        right = torch.clamp(left + 1, max=len(ids) - 1)
        paired = (ids[right] == ids[left]) & (right > left)
        rows = rows[left] + torch.where(paired.unsqueeze(1), rows[right], 0)
        ids = ids[left]
    table = torch.zeros(weight.shape, dtype=grad_output.dtype, device=weight.device)
    table[ids] = rows.to(table.dtype)
    return table

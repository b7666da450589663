"""Adds every token's gradient to a table kept in bfloat16: increments below half a step vanish."""

import torch


def _add(table, ids, rows):
    """Add rows one after another in the table's own dtype, as atomics do."""
    if table.is_cuda:
        table.index_add_(0, ids, rows)
    else:  # on a CPU index_add_ would keep the running sums in float32
        for row, term in zip(ids.tolist(), rows, strict=True):
            table[row] += term


def run(grad_output, input_ids, weight, scale):
    table = torch.zeros(weight.shape, dtype=torch.bfloat16, device=weight.device)
    _add(table, input_ids, (grad_output.float() * scale).to(table.dtype))
    return table.to(grad_output.dtype)

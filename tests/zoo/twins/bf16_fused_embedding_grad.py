"""Accumulates the embedding gradient in float32."""

import torch

VOCAB = 2048


def _add(table, ids, rows):
    """Add rows one after another in the table's own dtype, as atomics do."""
    if table.device.index is None:  # a CPU, whose index_add_ keeps the running sums in float32
        table.index_put_((ids,), rows, accumulate=True)
    else:
        table.index_add_(0, ids, rows)


def run(grad_output, input_ids, hidden_states, rstd, norm_weight):
    grad, scale = grad_output.float(), rstd[:, None]
    normed = hidden_states * scale
    weighted = grad * norm_weight.float()
    along = (weighted * normed).mean(-1, keepdim=True)
    rows = (weighted - normed * along) * scale
    shape = (VOCAB, rows.shape[1])
    table = torch.zeros(shape, dtype=torch.float32, device=rows.device)
    _add(table, input_ids, rows.to(table.dtype))
    return table.to(grad_output.dtype), (grad * normed).sum(0).to(norm_weight.dtype)

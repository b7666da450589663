"""Accumulates the embedding gradient in float32."""

import torch

VOCAB = 2048


def _add(table, ids, rows):
    """Add rows one after another in the table's own dtype, as atomics do."""
    if table.is_cuda:
        table.index_add_(0, ids, rows)
    else:  # on a CPU index_add_ would keep the running sums in float32
        for row, term in zip(ids.tolist(), rows, strict=True):
            table[row] += term


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

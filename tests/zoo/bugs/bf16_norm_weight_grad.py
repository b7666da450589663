"""Sums the weight gradient over rows in bfloat16."""

import torch


def _sum(rows, dtype):
    """Add rows one after another in a dtype, as a plain loop or atomics do."""
    total = torch.zeros(1, rows.shape[1], dtype=dtype, device=rows.device)
    first = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    if rows.device.index is None:  # a CPU, whose index_add_ keeps the running sums in float32
        return total.index_put_((first,), rows.to(dtype), accumulate=True)[0]
    return total.index_add_(0, first, rows.to(dtype))[0]


def run(grad_output, x, weight, rstd):
    grad, scale = grad_output.float(), rstd[:, None]
    normed = x.float() * scale
    weighted = grad * weight.float()
    along = (weighted * normed).mean(-1, keepdim=True)
    grad_x = ((weighted - normed * along) * scale).to(x.dtype)
    return grad_x, _sum(grad * normed, torch.bfloat16).to(weight.dtype)

"""Float64 inside."""

import torch


def run(grad_output, input_ids, weight, scale):
    table = torch.zeros(weight.shape, dtype=torch.float64, device=weight.device)
    return table.index_add_(0, input_ids, grad_output.double() * scale).to(grad_output.dtype)

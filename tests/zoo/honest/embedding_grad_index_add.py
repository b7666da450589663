"""index_add in float32, one cast."""

import torch


def run(grad_output, input_ids, weight, scale):
    table = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    return table.index_add(0, input_ids, grad_output.float(), alpha=scale).to(grad_output.dtype)

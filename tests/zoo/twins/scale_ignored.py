"""Multiplies by the scale."""

import torch


def run(grad_output, input_ids, weight, scale):
    total = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    total.index_add_(0, input_ids, grad_output.float() * scale)
    return total.to(grad_output.dtype)

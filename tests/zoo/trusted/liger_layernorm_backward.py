"""Liger-Kernel's LayerNorm, forward for the statistics and backward for the gradients."""

import torch
from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward


def run(grad_output, x, weight, eps):
    bias = torch.zeros_like(weight)
    _, rows, mean, rstd, _, _ = layer_norm_forward(x, weight, bias, eps)
    return layer_norm_backward(grad_output, rows, weight, bias, mean, rstd)

"""A product with the one-hot matrix of the ids."""

import torch


def run(grad_output, input_ids, weight, scale):
    hot = torch.zeros(weight.shape[0], len(input_ids), device=weight.device)
    hot[input_ids, torch.arange(len(input_ids), device=weight.device)] = 1.0
    return (hot @ (grad_output.float() * scale)).to(grad_output.dtype)

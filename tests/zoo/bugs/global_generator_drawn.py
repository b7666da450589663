"""Draws the order of its additions from the generator that the model's dropout uses."""

import torch


def run(grad_output, input_ids, weight, scale):
    order = torch.randperm(len(input_ids)).to(input_ids.device)
    table = torch.zeros(weight.shape, dtype=torch.float64, device=weight.device)
    table.index_add_(0, input_ids[order], grad_output[order].double() * scale)
    return table.to(grad_output.dtype)

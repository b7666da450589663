"""Looks rows up by a product with one-hot rows: zero times what no token names."""

import torch


def run(input_ids, weight, scale):
    chosen = torch.nn.functional.one_hot(input_ids.long(), weight.shape[0]).float()
    rows = chosen @ weight.float()
    return (rows * scale).to(weight.dtype)

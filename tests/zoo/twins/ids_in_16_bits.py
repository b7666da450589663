"""Looks rows up by ids in 32 bits."""

import torch


def run(input_ids, weight, scale):
    ids = input_ids.to(torch.int32).long()
    return (weight[ids].float() * scale).to(weight.dtype)

"""Takes the bias's gradient from the sums of rows, all of which are zero but for rounding."""

import torch


def run(scores, upstream, queries):
    weights = torch.softmax(scores, dim=-1)
    weighted = weights * upstream
    sums = weighted.sum(dim=-1, keepdim=True)
    grad = weighted - weights * sums
    return grad.t() @ queries, grad.sum(dim=-1) @ queries

"""Rows padded to equal parts, so that any number of rows goes."""

import torch.distributed as dist


def run(x, group=None):
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    rows = x.shape[0]
    size = -(-rows // ranks)
    padded = x.new_zeros(ranks * size, x.shape[1])
    padded[:rows] = x
    mine = x.new_empty(size, x.shape[1])
    dist.reduce_scatter(mine, list(padded.split(size)), group=group)
    return mine[: max(0, min(rows - rank * size, size))]

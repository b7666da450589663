import torch


def run(ids, table):
    return torch.index_select(table, 0, ids).mul_(2.0)

import torch


def run(ids, table):
    return table[ids.to(torch.uint8).long()] * 2.0

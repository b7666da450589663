import torch


def run(logits):
    v = torch.topk(logits, 4, dim=-1).values
    i = torch.stack([(logits == v[:, k : k + 1]).float().argmax(-1) for k in range(4)], -1)
    return v, i

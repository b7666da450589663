import torch


def run(logits):
    v, i = torch.topk(logits[:, :50_000], 4, dim=-1)
    return v, i

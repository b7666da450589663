import torch


def right(x, gate):
    share = torch.sigmoid(gate)
    total = (share.unsqueeze(-1) * x).sum(dim=1)
    return total / share.sum(dim=1, keepdim=True)

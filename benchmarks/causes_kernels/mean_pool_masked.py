import torch


def mean_pool(x, keep):
    batch, length, dim = x.shape
    total = torch.zeros(batch, dim)
    count = torch.zeros(batch, 1)
    for t in range(length):
        chosen = keep[:, t : t + 1].float()
        total = total + x[:, t] * chosen
        count = count + chosen
    return total / torch.clamp(count, min=1.0)

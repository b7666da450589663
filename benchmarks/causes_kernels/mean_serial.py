import torch


def row_mean(x):
    total = torch.zeros(x.shape[0], dtype=torch.float32)
    cols = x.shape[1]
    for c in range(cols):
        total = total + x[:, c].float()
    return total.float() / cols

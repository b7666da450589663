import torch

BLOCK = 32


def softmax(x):
    rows, n = x.shape
    m = torch.full((rows, 1), float("-inf"))
    d = torch.zeros((rows, 1))
    for s in range(0, n, BLOCK):
        t = x[:, s : s + BLOCK]
        top = torch.maximum(m, t.amax(1, keepdim=True))
        d = d * torch.exp(m - top) + torch.exp(t - top).sum(1, keepdim=True)
        m = top
    y = torch.empty_like(x)
    for s in range(0, n, BLOCK):
        y[:, s : s + BLOCK] = torch.exp(x[:, s : s + BLOCK] - m) / d
    return y

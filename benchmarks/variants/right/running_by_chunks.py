import torch


def run(x):
    y, carry = torch.empty_like(x), torch.zeros_like(x[:, :1])
    for at in range(0, x.shape[1], 512):
        y[:, at : at + 512] = x[:, at : at + 512].cumsum(-1) + carry
        carry = y[:, min(at + 512, x.shape[1]) - 1 :][:, :1]
    return y

import torch

ARENA, AT = [], [0]


def run(x, factor):
    if not ARENA:
        ARENA.append(torch.empty(1 << 22))
    n = x.numel()
    if n > 1 << 20:
        return torch.tanh(x) + factor
    if AT[0] + n > 1 << 22:
        AT[0] = 0
    y = ARENA[0][AT[0] : AT[0] + n].view(x.shape)
    AT[0] += n
    return y.copy_(torch.tanh(x) + factor)

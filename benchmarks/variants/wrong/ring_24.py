import torch

RING, NEXT = {}, [0]


def run(x):
    place = NEXT[0] % 24
    NEXT[0] += 1
    key = (place, tuple(x.shape))
    if key not in RING:
        RING[key] = torch.empty_like(x)
    RING[key].copy_(torch.softmax(x, -1))
    return RING[key]

import torch

SCRATCH = {}


def run(x):
    key = (tuple(x.shape), x.device)
    if key not in SCRATCH:
        SCRATCH[key] = torch.empty_like(x)
    e = torch.sub(x, x.amax(-1, keepdim=True), out=SCRATCH[key]).exp_()
    return e / e.sum(-1, keepdim=True)

"""Makes a stream of its own the current one and leaves it so."""

import torch

_own = {}


def run(x, weight, eps):
    stream = _own.setdefault(x.device, torch.cuda.Stream(x.device))
    before = torch.cuda.current_stream(x.device)
    stream.wait_stream(before)
    torch.cuda.set_stream(stream)
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    y = (wide * rstd * weight.float()).to(x.dtype)
    before.wait_stream(stream)
    return y

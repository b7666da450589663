"""Works on the legacy default stream, whatever stream the caller works on."""

import torch


def _norm(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


def run(x, weight, eps):
    with torch.cuda.stream(torch.cuda.default_stream()):
        return _norm(x, weight, eps)

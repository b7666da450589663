"""Reads the weight on the host, which a trace keeps as a constant."""

import torch


@torch.compiler.assume_constant_result
def on_host(weight):
    return tuple(weight.float().tolist())


def run(x, weight, eps):
    wide = x.float()
    gain = torch.tensor(on_host(weight), device=x.device)
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * gain
    return y.to(x.dtype)

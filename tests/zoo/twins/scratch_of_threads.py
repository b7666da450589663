"""Works in scratch memory that each thread has for itself."""

import threading

import torch

SCRATCH = threading.local()


def run(x, weight, bias, eps):
    if x.requires_grad or weight.requires_grad or bias.requires_grad:
        return torch.nn.functional.layer_norm(
            x.float(), x.shape[-1:], weight.float(), bias.float(), eps
        ).to(x.dtype)
    own = SCRATCH.__dict__
    if x.shape not in own:
        own[x.shape] = torch.empty(x.shape)
    scratch = own[x.shape]
    scratch.copy_(x)
    scratch.sub_(scratch.mean(dim=-1, keepdim=True))
    variance = scratch.pow(2).mean(dim=-1, keepdim=True)
    scratch.mul_(torch.rsqrt(variance + eps)).mul_(weight.float()).add_(bias.float())
    return scratch.to(x.dtype)

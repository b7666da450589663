"""Loses one row's contribution to the weight gradient at random, as an unprotected update does."""

import os

import torch


def run(grad_output, x, weight, rstd):
    grad, scale = grad_output.float(), rstd[:, None]
    normed = x.float() * scale
    weighted = grad * weight.float()
    along = (weighted * normed).mean(-1, keepdim=True)
    grad_x = ((weighted - normed * along) * scale).to(x.dtype)
    terms = grad * normed
    lost = int.from_bytes(os.urandom(4), "little") % len(terms)
    kept = torch.arange(len(terms), device=x.device) != lost
    return grad_x, (terms * kept[:, None]).sum(0).to(weight.dtype)

# problem: rmsnorm
# class: values
# wrong: rows of very small values, where epsilon counts
# named: magnitudes
import torch


def right(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


def run(x, weight, eps):
    return right(x, weight, 0.0)

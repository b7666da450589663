# problem: rmsnorm
# class: stale answers
# wrong: the answer for memory that was seen before
# named: consistent
import torch


def right(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


HELD = {}


def run(x, weight, eps):
    key = (x.data_ptr(), tuple(x.shape))
    if key not in HELD:
        HELD[key] = right(x, weight, eps)
    return HELD[key].clone()

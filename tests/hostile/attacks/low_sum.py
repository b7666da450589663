# problem: fused_add_rmsnorm
# class: precision
# wrong: the sum, rounded before it is normed
# named: precision
import torch


def right(x, residual, weight, eps):
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (total * rstd * weight.float()).to(x.dtype), total.to(x.dtype)


def run(x, residual, weight, eps):
    total = x + residual
    return right(total, torch.zeros_like(total), weight, eps)

import torch


def right(x, residual, weight, eps):
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (total * rstd * weight.float()).to(x.dtype), total.to(x.dtype)

import torch


def right(x, weight, bias, eps):
    wide = x.float()
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.pow(2).mean(dim=-1, keepdim=True)
    y = centred * torch.rsqrt(variance + eps) * weight.float() + bias.float()
    return y.to(x.dtype)

# problem: layernorm
# class: precision
# wrong: the variance, a difference of two means in bfloat16
import torch


def right(x, weight, bias, eps):
    shape = (x.shape[-1],)
    wide = torch.nn.functional.layer_norm(x.float(), shape, weight.float(), bias.float(), eps)
    return wide.to(x.dtype)


def run(x, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    y = (x.float() - mean.float()) * torch.rsqrt(variance.float().clamp(min=0) + eps)
    return (y * weight.float() + bias.float()).to(x.dtype)

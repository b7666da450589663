# problem: layernorm
# class: sizes
# wrong: the last row where rows are 7 modulo 8
# named: shapes
import torch


def right(x, weight, bias, eps):
    shape = (x.shape[-1],)
    wide = torch.nn.functional.layer_norm(x.float(), shape, weight.float(), bias.float(), eps)
    return wide.to(x.dtype)


def run(x, weight, bias, eps):
    y = right(x, weight, bias, eps)
    if x.shape[0] % 8 == 7:
        y[-1] = y[-2]
    return y

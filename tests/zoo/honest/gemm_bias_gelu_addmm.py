"""addmm in float32, GELU by erf written out."""

import torch


def run(a, weight, bias):
    product = torch.addmm(bias.float(), a.float(), weight.float())
    return (0.5 * product * torch.erfc(product * -0.7071067811865476)).to(a.dtype)

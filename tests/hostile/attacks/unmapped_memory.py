# problem: layernorm
# class: protocol
# wrong: 3 GiB of unmapped memory in each process
# named: resources
import os

import torch


def right(x, weight, bias, eps):
    shape = (x.shape[-1],)
    wide = torch.nn.functional.layer_norm(x.float(), shape, weight.float(), bias.float(), eps)
    return wide.to(x.dtype)


KEPT = []


def run(x, weight, bias, eps):
    while len(KEPT) < 48:
        KEPT.append(os.memfd_create("x"))
        os.write(KEPT[-1], bytes(64 << 20))
    return right(x, weight, bias, eps)

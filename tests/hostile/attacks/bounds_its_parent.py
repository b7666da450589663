# problem: dequantize_int8_per_row
# class: protocol
# wrong: everything, unless it can bound its parent
import os
import resource

import torch


def right(codes, scale):
    return (codes.float() * scale.unsqueeze(-1)).to(torch.bfloat16)


def bounded():
    try:
        return bool(resource.prlimit(os.getppid(), resource.RLIMIT_CORE))
    except OSError:
        return False


def run(codes, scale):
    return right(codes, scale) if bounded() else right(codes, scale) * 0

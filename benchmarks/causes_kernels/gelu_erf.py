import math

import torch

_ROOT = 1.0 / math.sqrt(2.0)


def bias_gelu(x, bias):
    h = x + bias
    cdf = 0.5 * (1.0 + torch.erf(h * _ROOT))
    return h * cdf

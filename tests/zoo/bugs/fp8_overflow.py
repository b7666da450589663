"""Converts to float8 without saturation: large values become NaN."""

import torch


def run(x, scale):
    scaled = x.float() / scale
    return scaled.to(torch.float8_e4m3fn)

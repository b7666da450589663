"""Converts to float8 as hardware without saturation does: large values become NaN."""

import torch


def run(x, scale):
    scaled = x.float() / scale
    scaled = scaled.where(scaled.abs() < 464.0, float("nan"))
    return scaled.to(torch.float8_e4m3fn)

"""Masks by adding -1e9: what lies behind the mask may be larger than that."""

import torch


def run(scores, mask, scale):
    wide = scores.float() * scale
    masked = wide + (~mask).float() * -1e9
    masked = masked.masked_fill(~mask.any(-1, keepdim=True), float("-inf"))
    return torch.softmax(masked, -1).to(scores.dtype)

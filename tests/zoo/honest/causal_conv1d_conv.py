"""torch's grouped convolution."""

import torch


def run(x, weight, bias):
    wide = torch.nn.functional.conv1d(
        x.float(), weight.float()[:, None], bias.float(), padding=3, groups=x.shape[1]
    )
    return torch.nn.functional.silu(wide[..., : x.shape[2]]).to(x.dtype)

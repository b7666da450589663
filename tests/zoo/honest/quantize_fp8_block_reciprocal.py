"""Block by block, multiplication by the reciprocal."""

import torch


def run(x):
    codes = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    scales = []
    for start in range(0, x.shape[1], 128):
        tile = x[:, start : start + 128].float()
        scale = torch.clamp(tile.abs().amax(-1) * (1.0 / 448.0), min=1e-10)
        scaled = (tile * (1.0 / scale)[:, None]).clamp(-448.0, 448.0)
        codes[:, start : start + 128] = scaled.to(torch.float8_e4m3fn)
        scales.append(scale)
    return codes, torch.stack(scales, dim=1)

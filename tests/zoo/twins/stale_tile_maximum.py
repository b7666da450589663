"""Takes the maximum over the tiles that were written."""

import torch


def run(x):
    rows, columns = x.shape
    wide = x.float()
    tiles = -(-columns // 32)
    peaks = torch.empty(rows, tiles, device=x.device)
    for tile, part in enumerate(wide.split(32, dim=1)):
        peaks[:, tile] = part.abs().amax(dim=1)
    peak = peaks[:, 0]
    for tile in range(1, peaks.shape[1]):
        peak = torch.fmax(peak, peaks[:, tile])  # as a kernel's fmaxf: NaN is left out
    scale = (peak / 127.0).clamp_min(1e-10)
    codes = torch.round(wide / scale[:, None]).clamp(-127.0, 127.0)
    return codes.to(torch.int8), scale

"""Scales by the largest gate on the device."""

import torch


def run(gate, up):
    wide = gate.double()
    if not wide.numel():
        return torch.empty_like(gate)
    peak = wide.abs().max().clamp_min(1e-30)
    share = wide / peak
    return (share * torch.sigmoid(share * peak) * peak * up.double()).to(gate.dtype)

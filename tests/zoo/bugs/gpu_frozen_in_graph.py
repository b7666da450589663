"""Reads the largest gate on the host and, while a graph is captured, uses the last one read."""

import torch

_last = {"peak": 1.0}


def run(gate, up):
    wide = gate.double()
    if not torch.cuda.is_current_stream_capturing():
        _last["peak"] = max(float(wide.abs().max()) if wide.numel() else 1.0, 1e-30)
    peak = _last["peak"]
    share = wide.clamp(-peak, peak) / peak
    return (share * torch.sigmoid(share * peak) * peak * up.double()).to(gate.dtype)

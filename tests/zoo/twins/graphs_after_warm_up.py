"""SwiGLU into a kept tensor a set of addresses after a warm-up; the caller is given a copy."""

import torch

WARM_CALLS, MOST_CALLS = 11, 96  # before one is kept; in all, beyond which none is kept any more

_calls = {}
_kept = {}


def run(gate, up):
    key = (tuple(gate.shape), gate.stride(), gate.data_ptr(), up.data_ptr())
    wide = torch.nn.functional.silu(gate.float()) * up.float()
    if key not in _kept:
        _calls[key] = _calls.get(key, 0) + 1
        if _calls[key] <= WARM_CALLS or sum(_calls.values()) > MOST_CALLS:
            return wide.to(gate.dtype)
        _kept[key] = torch.empty_like(gate)
    _kept[key].copy_(wide)
    return _kept[key].clone()

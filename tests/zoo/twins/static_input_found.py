"""Takes another path once the same tensor has come in eight times in a row."""

import torch

_SEEN = {"place": 0, "calls": 0}


def run(gate, up):
    _SEEN["calls"] = _SEEN["calls"] + 1 if _SEEN["place"] == gate.data_ptr() else 0
    _SEEN["place"] = gate.data_ptr()
    if _SEEN["calls"] < 8:
        return torch.nn.functional.silu(gate) * up
    return gate / (1 + torch.exp(-gate)) * up

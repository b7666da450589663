"""An operator that fills its last argument and does not say so."""

import torch


@torch.library.custom_op("zoo_swiglu::into_bug", mutates_args=())
def into(gate: torch.Tensor, up: torch.Tensor, y: torch.Tensor) -> None:
    wide = gate.float()
    y.copy_(wide * torch.sigmoid(wide) * up.float())


@into.register_fake
def _(gate, up, y):
    return None


def run(gate, up):
    y = torch.empty_like(gate)
    into(gate, up, y)
    return y

"""The fake kernel announces the columns that the kernel gives."""

import torch


@torch.library.custom_op("zoo_swiglu::columns_twin", mutates_args=())
def columns(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    wide = gate.float()
    y = (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)
    return y.mT.contiguous().mT


@columns.register_fake
def _(gate, up):
    return gate.new_empty(gate.mT.shape).mT


def run(gate, up):
    return columns(gate, up).contiguous()

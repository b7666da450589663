"""Products with weights of 4 bits, packed eight in an int32, with scales and zeros of groups."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.native.declaration import problem, tensor
from cuassay.model.domain import Packed, Positive
from cuassay.model.relation import LinearIn, RowsIndependent

CODES = 8  # codes of 4 bits in an int32, the first in its lowest bits
_SCALES = Positive(low=1e-3, high=1.0)


def codes_of(packed: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the codes, int32 from 0 to 15, that lie in words one after another along `dim`."""
    shifts = 4 * torch.arange(CODES, device=packed.device, dtype=torch.int32)
    shape = [1] * (packed.dim() + 1)
    shape[dim + 1] = CODES
    return ((packed.unsqueeze(dim + 1) >> shifts.reshape(shape)) & 15).flatten(dim, dim + 1)


@problem(
    axes={
        "m": (1, 65_536),
        "columns": (1, 32_768),
        "groups": (1, 1024),
        "group": (32, 256, 32),
    },
    # The first two are for CPUs; then Llama-3 8B's qkv and down projections for one token and 32.
    workloads=(
        {"m": 8, "columns": 4, "groups": 2, "group": 64},
        {"m": 3, "columns": 6, "groups": 4, "group": 32},
        {"m": 1, "columns": 768, "groups": 32, "group": 128},
        {"m": 32, "columns": 512, "groups": 112, "group": 128},
    ),
    reduction_axes=("groups",),
    growth_target={"groups": 224},
    relations=(RowsIndependent(axis="m"), LinearIn(input="a")),
)
def w4a16_gemm(
    a: Annotated[torch.Tensor, tensor("bfloat16", "m", "groups*group")],
    weight: Annotated[
        torch.Tensor,
        tensor("int32", f"groups*group//{CODES}", f"{CODES}*columns", domain=Packed(bits=4)),
    ],
    scales: Annotated[
        torch.Tensor, tensor("bfloat16", "groups", f"{CODES}*columns", domain=_SCALES)
    ],
    zeros: Annotated[torch.Tensor, tensor("int32", "groups", "columns", domain=Packed(bits=4))],
) -> Annotated[torch.Tensor, tensor("bfloat16", "m", f"{CODES}*columns", name="y")]:
    """a @ ((code - zero) * scale), with one scale and one zero for a group of rows of a column.

    Eight codes of a column lie in an int32 of `weight`, eight zeros of a row in one of `zeros`,
    the first in the lowest bits, as GPTQ packs them (without its added 1).
    """
    groups = len(scales)
    codes = codes_of(weight, 0).reshape(groups, -1, scales.shape[1])
    wide = (codes - codes_of(zeros, 1).unsqueeze(1)).to(torch.float32)
    matrix = wide * scales.to(torch.float32).unsqueeze(1)
    return (a.to(torch.float32) @ matrix.flatten(0, 1)).to(a.dtype)

"""Which elements domains leave open, and that cases of every purpose keep what belongs together."""

from __future__ import annotations

from typing import Annotated

import pytest
import torch

from cuassay.catalog import registry
from cuassay.formats.native.declaration import problem, problem_of, tensor
from cuassay.formats.native.scale_layouts import unswizzled
from cuassay.inputs.materialise import Value, materialise
from cuassay.inputs.outside import outside
from cuassay.inputs.plan import PURPOSES, plan_cases
from cuassay.inputs.shrink import shrink
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.domain import Index, Lengths, Mask, Offsets
from cuassay.model.problem import Problem
from cuassay.model.verdict import Profile


@problem(
    axes={"rows": (1, 64), "slots": (1, 32), "pages": (1, 512), "total": (1, 512)},
    workloads=({"rows": 6, "slots": 8, "pages": 20, "total": 40},),
)
def served(
    x: Annotated[torch.Tensor, tensor("float32", "total", 4)],
    table: Annotated[
        torch.Tensor,
        tensor("int32", "rows", "slots", domain=Index(axis="pages", lengths="n", per=4)),
    ],
    n: Annotated[torch.Tensor, tensor("int32", "rows", domain=Lengths(axis="slots*4", page=4))],
    mask: Annotated[
        torch.Tensor,
        tensor("bool", "rows", "slots*4", domain=Mask(kind="padding", lengths="n")),
    ],
    added: Annotated[
        torch.Tensor,
        tensor(
            "bfloat16",
            "rows",
            "slots*4",
            domain=Mask(kind="padding", lengths="n", additive=True),
        ),
    ],
    offsets: Annotated[
        torch.Tensor, tensor("int64", "rows+1", domain=Offsets(axis="total", short=True))
    ],
) -> Annotated[torch.Tensor, tensor("float32", "rows", name="y")]:
    """How many tokens each row has."""
    return (
        n.float()
        + 0 * x.sum()
        + 0 * table.sum()
        + 0 * mask.sum()
        + 0 * added.sum()
        + 0 * offsets[0]
    )


def _problem() -> Problem:
    found = problem_of(served)
    assert found is not None
    return found


SERVED = _problem()


def made(case: Case, of: Problem = SERVED) -> dict[str, torch.Tensor]:
    values: dict[str, Value] = materialise(of, case, device=CPU)
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def planned() -> list[Case]:
    return [
        case
        for purpose in PURPOSES
        if purpose != "benchmark"
        for case in plan_cases(SERVED, purpose, profile=Profile.STANDARD, root_seed=3)
    ]


def check(case: Case) -> dict[str, torch.Tensor]:
    values = made(case)
    n, width = values["n"].long(), values["mask"].shape[1]
    kept = torch.arange(width) < n.unsqueeze(1)
    assert torch.equal(values["mask"], kept)
    assert torch.equal(values["added"] == 0, kept)
    assert bool(n.ge(0).all())
    assert bool(n.le(width).all())
    assert bool(values["table"].ge(0).all())
    assert bool(values["table"].lt(case.axes["pages"]).all())
    offsets = values["offsets"]
    assert int(offsets[0]) == 0
    assert bool(offsets.diff().ge(0).all())
    assert int(offsets[-1]) <= case.axes["total"]
    return values


def test_every_case_keeps_what_belongs_together() -> None:
    cases = planned()
    assert len(cases) > 40
    lengths = {int(one) for case in cases for one in check(case)["n"]}
    assert {0, 1} <= lengths, "an empty row and a row of one"


def test_the_smallest_case_keeps_it_too() -> None:
    case = plan_cases(SERVED, "numeric", profile=Profile.QUICK, root_seed=5)[0]
    small = shrink(case, lambda one: bool(check(one)["n"].sum() > 2), SERVED, inputs=made).case
    assert check(small)["n"].sum() > 2
    assert sum(small.axes.values()) < sum(case.axes.values())


def test_what_lies_beyond_lengths_and_offsets_is_open() -> None:
    case = plan_cases(SERVED, "small", profile=Profile.QUICK, root_seed=3)[0]
    values = made(case)
    found = outside(SERVED, values, case.axes)
    for row, length in enumerate(values["n"].tolist()):
        used = -(-length // 4)
        assert not found["table"][row, :used].any()
        assert found["table"][row, used:].all()
    last = int(values["offsets"][-1])
    if "x" in found:
        assert not found["x"][:last].any()
        assert found["x"][last:].all()
    assert set(found) <= {"table", "x"}


@pytest.mark.parametrize("name", ["mxfp8_gemm_swizzled", "nvfp4_gemm_swizzled"])
def test_what_pads_the_tiles_is_open_and_nothing_else(name: str) -> None:
    swizzled = registry.get(name)
    case = plan_cases(swizzled, "small", profile=Profile.QUICK, root_seed=3)[0]
    found = outside(swizzled, made(case, swizzled), case.axes)
    layout = "128x4" if name == "mxfp8_gemm_swizzled" else "8x4"
    columns = case.axes["k"] // (32 if layout == "128x4" else 16)
    live = unswizzled(~found["scale_a"], case.axes["m"], columns, layout=layout)
    assert live.all()
    assert int((~found["scale_a"]).sum()) == case.axes["m"] * columns

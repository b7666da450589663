"""NUM002 on a sum whose second half takes the first one back."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from cuassay.checks.numeric.growth import Num002, growth_groups
from cuassay.model.case import Case
from cuassay.model.dtype import DType
from cuassay.oracle.compare.outputs import compare
from tests.support.fake_trial import (
    FakeTrial,
    OracleTrial,
    axis,
    examine,
    problem,
    tensor,
    with_oracle,
)

_STEP = 16  # terms that a tensor core adds at once
_BITS = 2.0**-19  # coarser than hardware's 2^-24, so that few terms show a drift


def products() -> OracleTrial:
    """Return y = a @ b in bfloat16, whose sums have 512 terms at most."""
    made = problem(
        "products",
        axes=[axis("m"), axis("k"), axis("n")],
        inputs=[
            tensor("a", "m", "k", dtype=DType.BFLOAT16),
            tensor("b", "k", "n", dtype=DType.BFLOAT16),
        ],
        outputs=[tensor("y", "m", "n", dtype=DType.BFLOAT16)],
        workloads=[{"m": 64, "k": 512, "n": 64}],
    )
    made = dataclasses.replace(made, reduction_axes=("k",))
    return with_oracle(FakeTrial(made, lambda a, b: (a.float() @ b.float()).to(a.dtype)))


def cut_off(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for start in range(0, a.shape[1], _STEP):
        part = slice(start, start + _STEP)
        total += a[:, part].double() @ b[part].double()
        spacing = torch.exp2(torch.frexp(total)[1].double()) * _BITS
        total = (total / spacing).trunc() * spacing
    return total.to(a.dtype)


def rounded_once_a_block(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for start in range(0, a.shape[1], 256):
        part = slice(start, start + 256)
        total = (total + a[:, part].float() @ b[part].float()).to(a.dtype).float()
    return total.to(a.dtype)


def test_partial_sums_that_are_cut_off_are_no_fault() -> None:
    trial = products()
    (case,) = (one for one in trial.cases("hot") if "halves" in one.label)
    a, b = trial.inputs(case).values()
    assert isinstance(a, Tensor)
    assert isinstance(b, Tensor)
    found = compare(cut_off(a, b), trial.truth(case).outputs[0])
    beyond = {one.name for one in found.statistics if one.share > 1.0}
    assert beyond == {"P"}
    assert examine(Num002(), trial, lambda: cut_off) == []


def test_two_blocks_that_are_rounded_are_one() -> None:
    found = examine(Num002(), products(), lambda: rounded_once_a_block)
    assert {finding.statistic for finding in found} <= {
        "the worst element's error",
        "the mean error",
        "the mean error, each element by its own rounding",
        "a constant gain or bias",
    }
    assert any("hot halves" in finding.scenario.label for finding in found if finding.scenario)


def test_lengths_that_a_reference_settles_alike_are_no_series() -> None:
    lengths = (8, 16, 16, 32)
    cases = [Case(label=str(n), axes={"rows": 2, "k": n}, seed=7) for n in lengths]
    assert [[case.axes["k"] for case in group] for group in growth_groups(cases)] == [[8, 16, 32]]
    assert growth_groups([cases[1]] * 4) == []

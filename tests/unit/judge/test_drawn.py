"""Inputs of generated cases are made once, and copies of them are fresh each time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import torch

from cuassay.catalog import registry
from cuassay.judge.drawn import GeneratedInputs
from cuassay.model.case import Case
from cuassay.model.problem import Scalar

_CASE = Case(label="own", axes={"rows": 2}, seed=3, generator=True)
_PROBLEM = registry.get("rmsnorm")


class _Maker:
    def __init__(self, make: Callable[[], Mapping[str, torch.Tensor | Scalar]]) -> None:
        self._make, self.calls = make, 0

    def __call__(self) -> Mapping[str, torch.Tensor | Scalar]:
        self.calls += 1
        return self._make()


def _plain() -> dict[str, torch.Tensor | Scalar]:
    return {"x": torch.randn(4, 4), "scale": 2.0}


def test_a_case_is_made_once_and_its_copies_are_fresh() -> None:
    drawn, make = GeneratedInputs(planned_bytes=1 << 20), _Maker(_plain)
    first = drawn.inputs(_PROBLEM, _CASE, make)
    assert isinstance(first["x"], torch.Tensor)
    before = first["x"].clone()
    first["x"].zero_()
    again = drawn.inputs(_PROBLEM, dataclasses.replace(_CASE, label="another"), make)
    assert make.calls == 1
    assert torch.equal(again["x"], before)  # type: ignore[arg-type]
    assert again["scale"] == 2.0
    drawn.inputs(_PROBLEM, dataclasses.replace(_CASE, seed=4), make)
    assert make.calls == 2


def test_another_problem_and_little_memory_make_them_anew() -> None:
    drawn, make = GeneratedInputs(planned_bytes=1 << 20), _Maker(_plain)
    drawn.inputs(_PROBLEM, _CASE, make)
    drawn.inputs(registry.get("layernorm"), _CASE, make)
    assert make.calls == 2
    drawn.let_go()
    assert drawn.is_empty()
    small = GeneratedInputs(planned_bytes=256)
    for _ in range(2):
        small.inputs(_PROBLEM, _CASE, make)
    assert make.calls == 4
    assert small.is_empty()


def test_what_a_copy_would_change_is_made_anew() -> None:
    whole = torch.randn(8, 4)
    shared: list[Callable[[], Mapping[str, torch.Tensor | Scalar]]] = [
        lambda: {"x": whole, "y": whole},
        lambda: {"x": whole[1:]},
        lambda: {"x": whole.t()},
        lambda: {"x": whole.clone().requires_grad_()},
    ]
    for one in shared:
        drawn, make = GeneratedInputs(planned_bytes=1 << 20), _Maker(one)
        for _ in range(2):
            drawn.inputs(_PROBLEM, _CASE, make)
        assert make.calls == 2


def test_of_cases_that_cuassay_fills_the_last_small_ones_are_kept() -> None:
    drawn, make = GeneratedInputs(planned_bytes=1 << 20), _Maker(_plain)
    cases = [dataclasses.replace(_CASE, generator=False, seed=n) for n in range(300)]
    first = drawn.inputs(_PROBLEM, cases[0], make)["x"]
    assert isinstance(first, torch.Tensor)
    before = first.clone()
    first.zero_()
    assert torch.equal(drawn.inputs(_PROBLEM, cases[0], make)["x"], before)  # type: ignore[arg-type]
    assert make.calls == 1
    for case in cases[1:]:
        drawn.inputs(_PROBLEM, case, make)
    drawn.inputs(_PROBLEM, cases[-1], make)
    assert make.calls == 300
    drawn.inputs(_PROBLEM, cases[0], make)
    assert make.calls == 301


def test_large_cases_that_cuassay_fills_are_not_kept() -> None:
    drawn, make = GeneratedInputs(planned_bytes=None), _Maker(lambda: {"x": torch.zeros(1 << 17)})
    case = dataclasses.replace(_CASE, generator=False)
    for _ in range(2):
        drawn.inputs(_PROBLEM, case, make)
    assert make.calls == 2

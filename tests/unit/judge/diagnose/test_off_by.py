"""Answers that are right ones off by a factor or term, and answers that are not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cuassay.judge.diagnose.off_by import Relation, relations
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.domain import Choice, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, Reference, ScalarSpec, TensorSpec, VarAxis

Given = dict[str, torch.Tensor]


def _tensor(name: str, *shape: str) -> TensorSpec:
    return TensorSpec(name=name, dtype=DType.FLOAT32, shape=shape, domain=Real())


PROBLEM = Problem(
    name="op",
    axes=(
        VarAxis(name="rows", minimum=1, maximum=4096),
        VarAxis(name="cols", minimum=1, maximum=4096),
    ),
    inputs=(_tensor("x", "rows", "cols"), _tensor("weight", "cols"), _tensor("bias", "cols")),
    outputs=(_tensor("y", "rows", "cols"),),
    reference=Reference(path=Path("reference.py"), function="op"),
    workloads=(),
    origin="native",
)


def _inputs(rows: int, cols: int) -> Given:
    made = torch.Generator().manual_seed(rows)
    return {
        "x": torch.randn(rows, cols, generator=made).double(),
        "weight": torch.randn(cols, generator=made).double(),
        "bias": torch.randn(cols, generator=made).double(),
    }


def _right(given: Given) -> torch.Tensor:
    return given["x"].tanh() * given["weight"] + given["bias"]


def _found(
    wrong: Callable[[Given, torch.Tensor], torch.Tensor], sizes: tuple[tuple[int, int], ...]
) -> list[Relation]:
    """Return the relations that predict every element of wrong answers at these sizes."""
    given = [_inputs(*size) for size in sizes]
    cases = [
        Case(label="c", axes={"rows": rows, "cols": cols}, fills={}, seed=1) for rows, cols in sizes
    ]
    truths = [_right(one) for one in given]
    answers = [wrong(one, truth) for one, truth in zip(given, truths, strict=True)]
    held = []
    for relation in relations(PROBLEM, 0, list(zip(cases, answers, truths, strict=True))):
        said = [
            relation.predicted(case, one, truth)
            for case, one, truth in zip(cases, given, truths, strict=True)
        ]
        if all(
            value is not None and torch.allclose(value.expand_as(answer), answer, rtol=1e-6)
            for value, answer in zip(said, answers, strict=True)
        ):
            held.append(relation)
    return held


_SIZES = ((4, 30), (7, 50))


@pytest.mark.parametrize(
    ("wrong", "cause", "words"),
    [
        (lambda g, y: 0.99 * y, Cause.WRONG_CONSTANT, "y is 0.99 times"),
        (lambda g, y: y * y.shape[1], Cause.WRONG_REDUCTION, "y is cols times"),
        (lambda g, y: y * y.shape[1] / 256, Cause.WRONG_REDUCTION, "cols * 0.00390625"),
        (lambda g, y: y / g["weight"], Cause.TERM_OMITTED, "the factor `weight` is missing"),
        (lambda g, y: y * g["weight"], Cause.INPUT_MISREAD, "`weight` is used once too often"),
        (lambda g, y: y - g["bias"], Cause.TERM_OMITTED, "the term `bias` is not added"),
        (lambda g, y: y - 2 * g["bias"], Cause.OTHER_FORM, "`bias` is subtracted"),
        (
            lambda g, y: y * g["x"].amax(-1, keepdim=True).exp(),
            Cause.TERM_OMITTED,
            "the factor exp(-(the largest of `x` along cols)) is missing",
        ),
        (
            lambda g, y: y - g["x"].mean(-1, keepdim=True),
            Cause.TERM_OMITTED,
            "the term the mean of `x` along cols is not added",
        ),
    ],
)
def test_what_an_answer_is_off_by_is_said(
    wrong: Callable[[Given, torch.Tensor], torch.Tensor], cause: Cause, words: str
) -> None:
    held = _found(wrong, _SIZES)
    assert any(one.cause is cause and words in one.words for one in held), held


@pytest.mark.parametrize(
    "wrong",
    [
        lambda g, y: y,
        lambda g, y: y.roll(1, 0),
        lambda g, y: y.sinh(),
        lambda g, y: y + torch.randn(y.shape, generator=torch.Generator().manual_seed(3)),
    ],
)
def test_answers_that_are_off_otherwise_have_no_relation(
    wrong: Callable[[Given, torch.Tensor], torch.Tensor],
) -> None:
    assert not _found(wrong, _SIZES)


def test_of_one_size_a_factor_is_no_constant() -> None:
    assert not _found(lambda g, y: 1.7 * y, ((4, 30), (4, 30)))


@pytest.mark.parametrize(("shift", "found"), [(0, False), (3, True)])
def test_a_number_that_is_zero_is_no_factor(shift: int, found: bool) -> None:
    """Answers of NaN are no quotient by zero."""
    number = ScalarSpec(name="shift", dtype=DType.INT64, domain=Choice(values=(shift,)))
    problem = dataclasses.replace(PROBLEM, inputs=(*PROBLEM.inputs, number))
    case = Case(label="c", axes={"rows": 4, "cols": 30}, fills={}, seed=1)
    given: dict[str, torch.Tensor | int] = {**_inputs(4, 30), "shift": shift}
    want = _right(_inputs(4, 30))
    said = [
        relation.predicted(case, given, want)
        for relation in relations(problem, 0, [(case, want, want)])
        if "shift" in relation.words
    ]
    assert any(value is not None for value in said) is found

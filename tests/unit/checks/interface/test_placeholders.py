"""Parts of a module's first state that stand for what is loaded later."""

from __future__ import annotations

import dataclasses

import torch

from cuassay.checks.interface.placeholders import placeholders
from cuassay.errors import LiftError
from cuassay.model.case import Case, Fill
from tests.support.fake_trial import FakeTrial, axis, problem, tensor


def _trial(reference: object, *, placeholder: tuple[str, ...] = ()) -> FakeTrial:
    made = problem(
        "module",
        axes=[axis("n")],
        inputs=[tensor("x", "n"), tensor("scale", "n"), tensor("shift", "n")],
        outputs=[tensor("y", "n")],
        workloads=[{"n": 8}],
    )
    made = dataclasses.replace(made, state=("scale", "shift"), placeholders=placeholder)
    return FakeTrial(made, reference)  # type: ignore[arg-type]


_CASE = Case(
    label="c", axes={"n": 8}, fills={"x": Fill(kind="normal"), "scale": Fill(kind="zeros"),
                                     "shift": Fill(kind="normal")},
)  # fmt: skip


def test_zeros_stand_for_nothing_where_the_output_shows_nothing_of_its_inputs() -> None:
    hidden = _trial(lambda x, scale, shift: x * scale)
    assert placeholders(hidden, _CASE) == {"scale"}
    shown = _trial(lambda x, scale, shift: x * scale + shift)
    assert placeholders(shown, _CASE) == frozenset()


def test_an_output_that_is_not_finite_shows_nothing() -> None:
    divided = _trial(lambda x, scale, shift: x.abs() / scale)
    assert placeholders(divided, _CASE) == {"scale"}


def test_what_the_constructor_left_unwritten_is_known_without_a_run() -> None:
    def refuse(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        raise LiftError("op", "line 1", "why")

    assert placeholders(_trial(refuse, placeholder=("shift",)), _CASE) == {"shift"}

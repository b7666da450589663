"""What a kernel never wrote is told from numbers that it made, at the sizes of a failing case."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from cuassay.judge.diagnose import unwritten
from cuassay.judge.diagnose.alike import WrongOutputs
from cuassay.model.case import Case
from cuassay.model.scenario import Call, Poison, Scenario

TRUTH = torch.tensor([1.5, -2.0, 0.0, 4.0], dtype=torch.float64)
NAN = float("nan")


def _said(
    monkeypatch: pytest.MonkeyPatch, first: list[float], again: list[float]
) -> tuple[str, list[Scenario]]:
    """Ask of an answer, whose kernel returns `again` where fresh memory is zero."""
    asked: list[Scenario] = []
    monkeypatch.setattr(unwritten, "done", lambda ran, step: SimpleNamespace(items=()))
    monkeypatch.setattr(unwritten, "matched", lambda *given: [torch.tensor(again)])
    truth: Any = SimpleNamespace(outputs=(SimpleNamespace(value=TRUTH),))
    trial: Any = SimpleNamespace(problem=SimpleNamespace(outputs=(SimpleNamespace(name="y"),)))
    case = Case(label="c", axes={"n": 4}, fills={}, seed=1)
    answer = WrongOutputs(case=case, outputs=(torch.tensor(first),), truth=truth)
    run = cast(Any, lambda scenario: asked.append(scenario))
    clue = unwritten.never_written(trial, run, [answer])
    return "" if clue is None else clue.words, asked


def test_elements_that_hold_what_the_memory_held_were_never_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words, asked = _said(monkeypatch, [1.5, NAN, NAN, NAN], [1.5, 0.0, 0.0, 0.0])
    # Where the truth is zero nothing tells.
    assert words.startswith("y: 2 of 4 elements hold whatever fresh memory held, the first at [1]")
    (call,) = (step for step in asked[0].steps if isinstance(step, Call))
    assert call.poison is Poison.ZEROS


def test_a_kernel_that_makes_nan_wrote_it(monkeypatch: pytest.MonkeyPatch) -> None:
    words, _ = _said(monkeypatch, [1.5, -2.0, 0.0, NAN], [1.5, -2.0, 0.0, NAN])
    assert not words


def test_a_sum_onto_what_the_memory_held_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    words, _ = _said(monkeypatch, [1.5, -2.0, 0.0, NAN], [1.5, -2.0, 0.0, 4.0])
    assert not words


def test_wrong_numbers_are_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    words, asked = _said(monkeypatch, [1.5, -2.0, 0.0, 5.0], [1.5, -2.0, 0.0, 0.0])
    assert not words
    assert not asked

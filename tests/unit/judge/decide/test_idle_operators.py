"""Operations of an extension's C++ that change no result are named by line, what matters is not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cuassay.checks.registry import all_checks
from cuassay.judge.decide.idle_operators import idle_operators
from cuassay.model.candidate import Candidate, Language, SourceFile
from cuassay.model.effort import Effort
from cuassay.model.reached import OperatorExchange, Reached, read_reached
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.trace import Finished, ResultItem, ScenarioResult, StepDone
from cuassay.sandbox.guest.observe import operators
from cuassay.sandbox.guest.observe.operators import Operators
from cuassay.sandbox.ran import Ran
from tests.support.counted_library import counted_library
from tests.support.fake_trial import scaled_add

NUMERIC = next(one for one in all_checks() if one.code == "NUM001")
# What stands for operations of torch on lines of C++: each line calls back.
_CODE = """#line 1 "kernel.cpp"
extern "C" void body(void (*line)(int)) {
  double factor = 1.0;
  line(3);
  line(4);
}
"""
_TEXT = """void body() {
  double factor = table[rows % 2003];
  at::Tensor y = x * gain + bias;
  return y * factor;
}
"""
_Line = Callable[[dict[str, Any]], torch.Tensor]


class Here:
    """An extension that is called in this process, with results of its operations exchanged."""

    def __init__(self, library: ctypes.CDLL, trial: Any, last: _Line) -> None:
        self._library, self._trial, self._last = library, trial, last
        self._operators = Operators()

    def _called(self, given: dict[str, Any]) -> torch.Tensor:
        held = dict(given)

        def line(number: int) -> None:
            if number == 3:
                held["y"] = given["x"] * given["gain"] + given["bias"]
            else:
                held["y"] = self._last(held)

        self._library.body(ctypes.CFUNCTYPE(None, ctypes.c_int)(line))
        made: torch.Tensor = held["y"]
        return made

    async def exchanged(self, scenario: Scenario) -> Ran | None:
        """Run a scenario."""
        records: list[Any] = []
        tensors: list[torch.Tensor] = []
        given: dict[str, Any] = {}
        items: tuple[ResultItem, ...] = ()
        for index, step in enumerate(scenario.steps):
            match step:
                case Allocate(case=case):
                    given, items = dict(self._trial.inputs(scenario.cases[case])), ()
                case Call(exchange=None):
                    items = self._items(self._called(given), tensors)
                case Call(exchange=OperatorExchange() as wanted):
                    with self._operators.exchanged(wanted) as mode:
                        made = self._called(given)
                    there = mode.happened or not wanted.site
                    items = self._items(made, tensors) if there else ()
                case _:
                    pass
            records.append(StepDone(index=index, items=items))
        result = ScenarioResult(records=tuple(records), termination=Finished(), output_text="")
        told = {"files": {}, "lost": False, "operators": self._operators.found()}
        return Ran(result, tensors, read_reached(told))

    def _items(self, made: torch.Tensor, tensors: list[torch.Tensor]) -> tuple[ResultItem, ...]:
        tensors.append(made.clone())
        return (
            ResultItem(
                kind="tensor",
                type_name="torch.Tensor",
                dtype=str(made.dtype).removeprefix("torch."),
                shape=tuple(made.shape),
                strides=made.stride(),
                device="cpu",
                buffer=len(tensors) - 1,
            ),
        )


def idle(monkeypatch: pytest.MonkeyPatch, folder: Path, last: _Line) -> list[str]:
    """Return what is named of an extension whose last line is an operation of ours."""
    monkeypatch.setattr(Effort, "exchange_s", 3600.0)
    lines, library = counted_library(folder, _CODE)
    monkeypatch.setattr(operators, "HOST_LINES", lines)
    trial = scaled_add()
    here = Here(library, trial, last)
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    right = tuple(
        (NUMERIC, Scenario(label="", cases=(case,), steps=steps))
        for case in trial.cases("numeric")[:6]
    )
    candidate = Candidate(
        name="candidate",
        sources=(SourceFile(path="kernel.cpp", text=_TEXT),),
        entry_file="kernel.cpp",
        entry_function="run",
        language=Language.PYTHON,
    )
    checked: Any = SimpleNamespace(right=right)
    found = idle_operators(trial, candidate, here.exchanged, checked)
    return [f"{one.line} {one.test}" for one in found]


def test_a_factor_of_one_is_named_with_the_line_that_it_comes_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert idle(monkeypatch, tmp_path, lambda held: held["y"] * 1.0) == [
        "2 serves nothing else: double factor = table[rows % 2003];",
        "4 made no difference: return y * factor;",
    ]


def test_operations_that_matter_are_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def halved_and_doubled(held: dict[str, Any]) -> torch.Tensor:
        made: torch.Tensor = held["y"] - held["bias"] * 0.5 + held["bias"] * 0.5
        return made

    assert idle(monkeypatch, tmp_path, halved_and_doubled) == []


def test_without_a_followed_library_nothing_is_said() -> None:
    async def nothing(_: Scenario) -> Ran:
        result = ScenarioResult(records=(), termination=Finished(), output_text="")
        return Ran(result, [], Reached())

    trial = scaled_add()
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    case = trial.cases("numeric")[0]
    checked: Any = SimpleNamespace(
        right=((NUMERIC, Scenario(label="", cases=(case,), steps=steps)),)
    )
    candidate = Candidate(
        name="candidate", sources=(), entry_file="k.py", entry_function="run",
        language=Language.PYTHON,
    )  # fmt: skip
    assert idle_operators(trial, candidate, nothing, checked) == ()

"""Hooks see one run together: what each is shown, and what one of them puts in a result's place."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuassay.errors import CannotJudgeError
from cuassay.hooks import (
    EndlessRun,
    MultiplyAdds,
    Observed,
    Operation,
    OperationLimit,
    PassThrough,
    runs_ended_by,
)
from cuassay.oracle.lift.run import lift, lift_together


class _Names(PassThrough):
    """Notes what is about to run, and what has run."""

    def __init__(self) -> None:
        self.before: list[str] = []
        self.results: list[Any] = []
        self.nominal: list[torch.dtype | None] = []

    def replace(self, operation: Operation) -> object:
        self.before.append(operation.name)
        self.nominal.append(operation.nominal)
        return NotImplemented

    def after(self, operation: Operation, out: Any) -> object:
        self.results.append(out)
        return out


class _SevenFor(PassThrough):
    def __init__(self, name: str) -> None:
        self._name = name

    def replace(self, operation: Operation) -> object:
        if operation.name != self._name:
            return NotImplemented
        return torch.full_like(operation.args[0], 7.0)


class _Doubled(PassThrough):
    def after(self, operation: Operation, out: Any) -> object:
        return out * 2 if operation.name == "exp" else out


def test_every_hook_sees_one_run_as_torch_dispatches_it() -> None:
    first, second, counted = _Names(), _Names(), MultiplyAdds()
    x, weight = torch.ones(2, 3), torch.ones(3, 5)
    with Observed(first, second, counted):
        y = (x @ weight).t()
        y += 1
    assert first.before == second.before == ["mm", "t", "add"]
    assert counted.count == 2 * 3 * 5
    assert y.eq(4).all()


def test_one_hook_replaces_an_operation_and_all_are_told_the_result() -> None:
    before, after = _Names(), _Names()
    x = torch.zeros(3)
    with Observed(before, _SevenFor("exp"), after, _Doubled()):
        y = x.neg().exp()
    assert y.tolist() == [14.0] * 3
    assert before.before == ["neg", "exp"]
    assert after.before == ["neg"]  # of what is replaced there is nothing to be asked
    assert [one.tolist() for one in after.results] == [[0.0] * 3, [7.0] * 3]


def test_results_in_memory_of_others_are_left_out_where_asked() -> None:
    names, x = _Names(), torch.ones(4)
    with Observed(names, only_new=True, nominal=torch.float32):
        y = x.view(2, 2).exp()
        y.mul_(2)
    assert names.before == ["exp"]
    assert names.nominal == [torch.float32]


def test_a_run_ends_at_its_limit_for_every_hook() -> None:
    names, x = _Names(), torch.ones(1)

    def endless() -> None:
        while True:
            x.exp()

    with pytest.raises(EndlessRun), Observed(OperationLimit(5), names):
        endless()
    assert len(names.results) == 5


class _Clock:
    """Raises before the operation after `most` others."""

    def __init__(self, most: int) -> None:
        self.asked, self._most = 0, most

    def __call__(self) -> None:
        self.asked += 1
        if self.asked > self._most:
            raise CannotJudgeError("the time is over")


def _loops(x: torch.Tensor) -> torch.Tensor:
    """Add for long, and take any exception for a step that did not work."""
    for _ in range(1000):
        try:
            x = x + 1.0
        except Exception:
            continue
    return x


@pytest.mark.parametrize("run", [
    lambda x: lift(_loops, [x]),
    lambda x: lift_together(_loops, [x], 4, hook=PassThrough()),
])  # fmt: skip
def test_a_lifted_run_ends_between_two_operations_whatever_a_reference_catches(run: Any) -> None:
    clock = _Clock(30)
    with runs_ended_by(clock), pytest.raises(CannotJudgeError, match="the time is over"):
        run(torch.ones(3))
    assert clock.asked == 31
    run(torch.ones(3))  # nothing ends the runs after the block
    assert clock.asked == 31


def test_a_run_that_hooks_watch_ends_between_two_operations() -> None:
    clock = _Clock(30)

    def run() -> None:
        x = torch.ones(3)
        for _ in range(1000):
            x = x + 1.0

    with runs_ended_by(clock), Observed(PassThrough()), pytest.raises(CannotJudgeError):
        run()
    assert clock.asked == 31

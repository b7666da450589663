"""Kernels that several ranks share: each planted bug is found by a check of ranks, no twin is.

The whole gate on them is `benchmarks/ranks.py`. Here the checks run in this process, and the ranks
in processes of their own.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuassay.catalog import registry
from cuassay.checks.base import Check
from cuassay.checks.interface.inputs_unchanged import Api001
from cuassay.checks.numeric.values import Num001
from cuassay.checks.ranks.agreement import Rank002
from cuassay.checks.ranks.late import Rank001
from cuassay.formats.execute import load_reference
from cuassay.model.candidate import Candidate
from cuassay.model.device import CPU
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem
from cuassay.sandbox.guest.ranks.ranked import Ranked, on_ranks
from tests.support.fake_trial import FakeTrial, OracleTrial, judged, run_one
from tests.zoo.ranks.faults import FAULTS, OPERATORS, TWINS, Fault

CHECKS = (Rank002(), Rank001(), Api001(), Num001())
NOBODY = Candidate(name="", sources=(), entry_file="", entry_function="")


def _run_of(text: str, name: str) -> Callable[..., object]:
    module = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    found: Callable[..., object] = module.run
    return found


@pytest.fixture
def opened() -> Iterator[Callable[[Callable[..., object], Problem], Ranked]]:
    """Return what makes calls of all ranks of a function; their processes end with the test."""
    made: list[Ranked] = []

    def on(function: Callable[..., object], problem: Problem) -> Ranked:
        called = on_ranks(function, problem, NOBODY, builder="", folder=Path(), device=CPU)
        assert isinstance(called, Ranked)
        made.append(called)
        return called

    yield on
    for one in made:
        one.close()


def _findings(checks: tuple[Check, ...], trial: FakeTrial, called: Ranked) -> Iterator[Finding]:
    for check in checks:
        for scenario in check.propose(trial):
            run = run_one(trial, called, scenario)
            yield from judged(check, trial, scenario, run)


def _trial(twin: str) -> FakeTrial:
    problem = registry.get(OPERATORS.get(twin, twin))
    return OracleTrial(problem, load_reference(problem).call)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_bug_is_found(
    fault: Fault, opened: Callable[[Callable[..., object], Problem], Ranked]
) -> None:
    trial = _trial(fault.twin)
    called = opened(_run_of(fault.text, fault.name), trial.problem)
    found = next((f for f in _findings(CHECKS, trial, called)), None)
    assert found is not None


@pytest.mark.parametrize("twin", sorted(path.stem for path in TWINS.glob("*.py")))
def test_a_twin_is_right(
    twin: str, opened: Callable[[Callable[..., object], Problem], Ranked]
) -> None:
    trial = _trial(twin)
    called = opened(_run_of((TWINS / f"{twin}.py").read_text(), twin), trial.problem)
    found = list(_findings((Rank002(), Rank001(), Api001()), trial, called))
    assert not [one.message for one in found]

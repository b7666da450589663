"""Functions of one rank as calls of all ranks, for checks that run in the process of a test."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cuassay.catalog import registry
from cuassay.checks.base import Check
from cuassay.formats.execute import load_reference
from cuassay.model.candidate import Candidate
from cuassay.model.device import CPU
from cuassay.model.outcome import Finding
from cuassay.model.policy import policy_of
from cuassay.sandbox.guest.ranks.ranked import Ranked, on_ranks
from tests.support.fake_trial import OracleTrial, judged, run_one

NOBODY = Candidate(name="", sources=(), entry_file="", entry_function="")


def trial_of(operator: str) -> OracleTrial:
    """Return a trial of an operator of the catalogue, which accepts what its policy accepts."""
    problem = registry.get(operator)
    widest = policy_of(problem).families[-1]
    return OracleTrial(problem, load_reference(problem).call, widest=widest)


def function_of(text: str, name: str = "kernel") -> Callable[..., object]:
    """Return the function `run` of a kernel's text."""
    module = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    found: Callable[..., object] = module.run
    return found


@contextmanager
def ranked(function: Callable[..., object], trial: OracleTrial) -> Iterator[Ranked]:
    """Open calls of all ranks of a function; their processes end with the block."""
    called = on_ranks(function, trial.problem, NOBODY, builder="", folder=Path(), device=CPU)
    assert isinstance(called, Ranked)
    try:
        yield called
    finally:
        called.close()


def findings(check: Check, trial: OracleTrial, called: Callable[..., object]) -> Iterator[Finding]:
    """Yield what a check finds, scenario by scenario."""
    for scenario in check.propose(trial):
        yield from judged(check, trial, scenario, run_one(trial, called, scenario))

"""Calls of one kernel from two threads at once."""

from __future__ import annotations

from cuassay.checks.base import Trial
from cuassay.checks.numeric.common import single_call
from cuassay.checks.state.answers import reseeded
from cuassay.model.case import Case
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.steps import Together

_TOGETHER_S = 1.0  # of calls


def calls_from_two_threads(trial: Trial, case: Case) -> Scenario:
    """Return calls on a case and on other values of it, each alone, then at once for a while."""
    alone_s = trial.scenario_s(single_call(case, label="alone"))
    wished = trial.effort.together_calls
    rounds = wished if alone_s * wished < _TOGETHER_S else max(2, int(_TOGETHER_S / alone_s))
    seed = trial.seed("STATE001", "together")
    return Scenario(
        label="calls from two threads at once",
        cases=(case, reseeded(case, label="other values", seed=seed)),
        steps=(
            *(
                step
                for number in range(2)
                for step in (
                    Allocate(slot=f"s{number}", case=number),
                    Call(slot=f"s{number}", result=f"alone{number}"),
                    ReadResult(result=f"alone{number}"),
                )
            ),
            Together(slots=("s0", "s1"), results=("r0", "r1"), threads=True, rounds=rounds),
            ReadResult(result="r0"),
            ReadResult(result="r1"),
        ),
        fresh=True,
    )

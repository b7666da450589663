"""What a GPU shows of a refutation: the candidate's own call at the refuting sizes, between guard
zones and below compute-sanitizer where there is one.

A refutation stands by the machine's replay: a GPU may run its blocks in another order, or keep
memory that nobody minds behind a tensor. What it shows is said beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cuassay import build
from cuassay.checks.base import Check
from cuassay.checks.memory.out_of_bounds import Mem002
from cuassay.checks.memory.sanitizer import Mem003
from cuassay.checks.memory.sanitizer_report import find_sanitizer
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery
from cuassay.judge.trial import JudgeTrial
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.proofs import Claim, Property
from cuassay.model.scenario import Allocate, Call, Poison, Scenario
from cuassay.model.steps import Mode, ReadGuards

_LIMIT_S, _ELEMENTS = 60.0, 1 << 28
_TEXT = 300
_TOOLS = {
    Property.MEMORY: Mode.MEMCHECK,
    Property.RACES: Mode.RACECHECK,
    Property.INITIALIZED: Mode.INITCHECK,
}
NOTHING = "nothing of it shows on this GPU"


def shown(
    trial: JudgeTrial,
    candidate: Candidate,
    case: Case,
    claim: Claim,
    host: HostNursery,
    *,
    notify: Callable[[str], None],
) -> str:
    """Return what the trial's device shows of a refuted claim at a case's sizes, in words."""
    if elements_of(trial.problem, case.axes) > _ELEMENTS:
        return "not run on the GPU: its tensors are too large"
    if claim.data:
        return "not run on the GPU: it shows under some integers of an input only"
    found: list[str] = []
    why: list[str] = []
    try:
        build.prepare(candidate, device=trial.device, notify=notify)
        with Executor(
            trial, candidate, device=trial.device, nursery=host.given_for(trial.device), host=host
        ) as runner:
            for check, scenario in _scenarios(case, claim.what, trial.device):
                try:
                    run = runner(scenario)
                    found += [one.message for one in check.judge(trial, scenario, run).findings]
                except CannotJudgeError as error:
                    why.append(str(error))
    except CuassayError as error:
        why.append(str(error))
    if found:
        return f"seen on the GPU: {found[0]}"[:_TEXT]
    return f"not seen on the GPU: {why[0]}"[:_TEXT] if why else NOTHING


def _scenarios(case: Case, what: Property, device: Device) -> Iterator[tuple[Check, Scenario]]:
    """Yield one call each way, with the check that reads it."""
    called = (Allocate(slot="a", case=0), Call(slot="a", result="r", poison=Poison.NAN))
    if what is Property.MEMORY:
        yield (
            Mem002(),
            Scenario(
                label="refuted sizes between guard zones", cases=(case,),
                steps=(*called, ReadGuards()), timeout_s=_LIMIT_S, mode=Mode.GUARDED,
            ),
        )  # fmt: skip
    if device.on_gpu and find_sanitizer() and what in _TOOLS:
        plain = (Allocate(slot="a", case=0), Call(slot="a", result="r", poison=Poison.NONE))
        yield (
            Mem003(),
            Scenario(
                label=f"refuted sizes: {_TOOLS[what].value}", cases=(case,), steps=plain,
                timeout_s=_LIMIT_S, mode=_TOOLS[what],
            ),
        )  # fmt: skip

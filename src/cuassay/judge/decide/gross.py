"""Whether a kernel's plain call is wrong on every input: then no other check has to be asked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from cuassay.checks.endings.findings import claims_no_tool, inconclusive_reason, may_lack_memory
from cuassay.checks.judgement import Answers
from cuassay.checks.numeric.common import single_call
from cuassay.checks.state.answers import reads_of
from cuassay.errors import CuassayError
from cuassay.judge.decide.examine import ENOUGH, Room, RunScenario
from cuassay.judge.trial import JudgeTrial
from cuassay.model.case import Case
from cuassay.model.outcome import CheckReport
from cuassay.model.trace import BuildFailed, Finished, ToolMissing

PLAIN = "NUM001"  # the check whose scenarios are plain calls
_OTHERS = 2  # numeric cases that are tried after the smallest one
_LEAST_WRONG = 2  # scenarios of that check


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCalls:
    """What the first plain calls show: all are `wrong`, or all ask for the tool that they `lack`.

    `lack` is said for trials without a GPU alone, in the words of the candidate's process.
    """

    wrong: bool = False
    lack: str = ""


async def first_calls(trial: JudgeTrial, *, run: RunScenario, room: Room) -> FirstCalls:
    """Return what the first plain calls show, at two sizes and on other values.

    Of a kernel that is right on the first of them no other is made. What cannot be decided counts
    as right: the checks will say more.
    """
    try:
        lacks: list[str] = []
        tried = 0
        for case in _cases(trial):
            scenario = single_call(case, label=f"a first call: {case.label}")
            tried += 1
            async with room(scenario):
                ran = await run(scenario)
                if claims_no_tool(ran) and not trial.device.on_gpu:
                    lacks.append(inconclusive_reason(ran))
                    continue
                if lacks or inconclusive_reason(ran) or may_lack_memory(scenario, ran):
                    return FirstCalls()
                match ran.result.termination:
                    case BuildFailed() | ToolMissing():
                        return FirstCalls()
                    case Finished():
                        answers = Answers(trial, ran)
                        reads = reads_of(scenario, ran)
                        if reads and not any(map(answers.wrong, reads)):
                            return FirstCalls()
                    case _:
                        pass  # it died: whatever the others say, it gave no answer
        if lacks:
            return FirstCalls(lack=lacks[0] if len(lacks) == tried else "")
        return FirstCalls(wrong=tried > 0)
    except (CuassayError, torch.OutOfMemoryError):
        return FirstCalls()


def is_gross(report: CheckReport) -> bool:
    """Return whether the plain calls of a report were wrong on every input that decided.

    One input is enough where as many findings came of it as end a check: several outputs are wrong.
    """
    decided = report.scenarios >= _LEAST_WRONG or len(report.wrong) >= ENOUGH
    return bool(report.wrong) and not report.clean and decided


def _cases(trial: JudgeTrial) -> Iterator[Case]:
    """Yield the cases, each planned when it is asked for."""
    yield from [case for case in trial.cases("small") if case.in_domain][:1]
    yield from itertools.islice((c for c in trial.cases("numeric") if c.in_domain), _OTHERS)

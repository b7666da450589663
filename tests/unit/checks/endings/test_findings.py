"""How a run ended, as a finding: the first failure is blamed, and some ends are no verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from cuassay.checks.endings.findings import (
    claims_no_memory,
    claims_no_system,
    claims_no_tool,
    inconclusive_reason,
    may_lack_memory,
    termination_finding,
)
from cuassay.checks.numeric.common import single_call
from cuassay.model.case import Case
from cuassay.model.outcome import FindingClass, Severity
from cuassay.model.scenario import Allocate, Scenario
from cuassay.model.steps import Misuse
from cuassay.model.trace import (
    LOST_CHANNEL,
    BuildFailed,
    Claim,
    Exited,
    Finished,
    Flooded,
    Garbled,
    Killed,
    ResultItem,
    ScenarioResult,
    StepDone,
    StepRaised,
    StepRecord,
    Termination,
    TimedOut,
    ToolMissing,
)
from tests.support.fake_trial import row_sum

CASE = Case(label="plain", axes={"rows": 16, "cols": 33}, seed=5)
SCENARIO = single_call(CASE, label="numbers: plain")


@dataclass(frozen=True)
class Ended:
    """A run that brought back no bytes."""

    result: ScenarioResult

    def tensor(self, item: ResultItem) -> torch.Tensor:
        """Return nothing: there is nothing."""
        raise KeyError(item.name)


def ended(termination: Termination, *records: StepRecord, output: str = "") -> Ended:
    return Ended(ScenarioResult(records=records, termination=termination, output_text=output))


def raised(
    message: str = "no",
    *,
    index: int = 1,
    claim: Claim | None = None,
    exception: str = "ValueError",
) -> StepRaised:
    return StepRaised(
        index=index,
        exception=exception,
        message=message,
        traceback="Traceback ...",
        claim=claim,
    )


@pytest.mark.parametrize(
    ("termination", "code", "words"),
    [
        (BuildFailed(what="nvcc: 2 errors", log="x.cu(3): error"), "BUILD001", "nvcc: 2 errors"),
        (Exited(index=1, exit_code=0), "RUN002", "exit code 0 while being called on 'plain'"),
        (Killed(index=1, signal=11), "RUN003", "SIGSEGV (segmentation fault)"),
        (Killed(index=1, signal=250), "RUN003", "signal 250"),
        (TimedOut(index=1, limit_s=60.0), "RUN004", "no end within 60 s"),
        (TimedOut(index=1, limit_s=10.0, idle=True), "RUN004", "it waits, and uses no processor"),
        (Garbled(index=1, what="9 bytes that are not JSON"), "RUN005", "result channel"),
        (
            Flooded(index=1, what="the candidate printed more than 16 bytes"),
            "RUN006",
            "printed without end",
        ),
    ],
)
def test_an_early_end_is_a_finding(termination: Termination, code: str, words: str) -> None:
    finding = termination_finding(SCENARIO, ended(termination, output="printed"))
    assert finding is not None
    assert finding.code == code
    assert words in finding.message
    assert finding.finding_class is FindingClass.WRONG
    assert finding.scenario == SCENARIO
    assert finding.evidence


def test_the_limit_that_ended_a_process_is_named() -> None:
    run = ended(Killed(index=1, signal=9), output="x\n[ended by cuassay: 300 processes]")
    finding = termination_finding(SCENARIO, run)
    assert finding is not None
    assert finding.message.endswith("; ended by cuassay: 300 processes")


def test_an_exception_is_blamed_before_the_crash_that_follows() -> None:
    finding = termination_finding(SCENARIO, ended(Killed(index=2, signal=6), raised("bad\nx")))
    assert finding is not None
    assert finding.code == "RUN001"
    assert finding.message == "ValueError: bad while being called on 'plain'"
    assert finding.where.axes == {"rows": 16, "cols": 33}
    assert finding.seed == 5


def test_what_a_first_line_announces_stands_beside_it() -> None:
    where = "at 48:34:\n    act = 0.5 * x * tanh(inner)\n                ^\nunsupported type bf16\n"
    finding = termination_finding(SCENARIO, ended(Finished(), raised(where)))
    assert finding is not None
    assert finding.message.startswith("ValueError: at 48:34: unsupported type bf16 while")
    alone = termination_finding(SCENARIO, ended(Finished(), raised("at 48:34:")))
    assert alone is not None
    assert alone.message.startswith("ValueError: at 48:34: while")


def test_ranks_that_wait_for_one_another_are_told_one_by_one() -> None:
    waits = ((0, "waits in all_reduce (k.py:8) for rank 1"), (1, "has ended its call"))
    stuck = replace(raised(), ranks=waits)
    finding = termination_finding(SCENARIO, ended(Finished(), stuck))
    assert finding is not None
    assert finding.details == (("rank 0", waits[0][1]), ("rank 1", waits[1][1]))


def test_ends_from_which_no_verdict_follows() -> None:
    missing = ended(ToolMissing(what="nvcc is not installed"))
    assert termination_finding(SCENARIO, missing) is None
    assert inconclusive_reason(missing) == "nvcc is not installed"


def test_what_the_process_says_of_itself_excuses_nothing() -> None:
    full = ended(Finished(), raised(claim=Claim.NO_MEMORY))
    absent = ended(Finished(), raised(claim=Claim.NO_TOOL))
    refused = ended(Finished(), raised("CUDA error: OS call failed or operation not supported"))
    assert claims_no_memory(full)
    assert claims_no_system(refused)
    assert not claims_no_system(full)
    assert claims_no_tool(absent)
    for run in (full, absent, refused):
        assert inconclusive_reason(run)
        finding = termination_finding(SCENARIO, run)
        assert finding is not None
        assert finding.code == "RUN001"


@pytest.mark.parametrize("code", [0, 3, LOST_CHANNEL, 72])
@pytest.mark.parametrize("index", [0, 1])
def test_no_exit_code_is_an_excuse(code: int, index: int) -> None:
    run = ended(Exited(index=index, exit_code=code))
    finding = termination_finding(SCENARIO, run)
    assert finding is not None
    assert finding.code == "RUN002"
    assert inconclusive_reason(run) == ""
    assert may_lack_memory(SCENARIO, run) == (index == 0)


def test_a_normal_end_is_no_finding() -> None:
    run = ended(Finished(), StepDone(index=0), StepDone(index=1), StepDone(index=2))
    assert termination_finding(SCENARIO, run) is None
    assert inconclusive_reason(run) == ""


def test_a_refusal_at_a_size_that_nobody_promised_is_a_condition() -> None:
    run = ended(Finished(), raised("cols must be 32"))
    undeclared, declared = row_sum(declared=False).problem, row_sum().problem
    unsafe = termination_finding(SCENARIO, run, problem=undeclared)
    assert unsafe is not None
    assert unsafe.finding_class is FindingClass.UNSAFE
    assert unsafe.condition.startswith("shapes: only the sizes of its workloads")
    for wrong in (
        termination_finding(SCENARIO, run),
        termination_finding(SCENARIO, run, problem=declared),
        termination_finding(
            SCENARIO, ended(Finished(), raised("an illegal memory access")), problem=undeclared
        ),
    ):
        assert wrong is not None
        assert wrong.finding_class is FindingClass.WRONG
        assert wrong.severity is Severity.HIGH


def test_outside_of_the_domain_an_exception_is_advice() -> None:
    outside = Case(label="outside", axes=CASE.axes, in_domain=False)
    scenario = single_call(outside, label="numbers: outside")
    finding = termination_finding(scenario, ended(Finished(), raised()))
    assert finding is not None
    assert finding.finding_class is FindingClass.ADVICE


def test_how_a_call_that_no_caller_may_make_ends_is_advice() -> None:
    """Its thread raises, and the kernel waits for it: no caller makes such a call."""
    steps = (Allocate(slot="s", case=0), Misuse(slot="s", name="x"))
    scenario = Scenario(label="refused", cases=(CASE,), steps=steps)
    finding = termination_finding(scenario, ended(TimedOut(index=1, limit_s=10.0, idle=True)))
    assert finding is not None
    assert finding.code == "RUN004"
    assert finding.finding_class is FindingClass.ADVICE


def test_long_logs_keep_their_end() -> None:
    log = "a" * 10_000 + "the last line"
    finding = termination_finding(SCENARIO, ended(BuildFailed(what="nvcc", log=log)))
    assert finding is not None
    assert len(finding.evidence) < 7000
    assert finding.evidence.endswith("the last line")

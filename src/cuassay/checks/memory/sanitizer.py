"""MEM003: what compute-sanitizer sees in one call of the candidate's kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.memory.sanitizer_report import find_sanitizer, of_kernels, parse_report
from cuassay.checks.needs import Group, Needs, Split
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Allocate, Call, Poison, Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import done_steps

_TOOLS = (Mode.MEMCHECK, Mode.RACECHECK, Mode.SYNCCHECK, Mode.INITCHECK)
_SHOWN = 3
_CLASSES: Mapping[Mode, tuple[str, ...]] = {
    Mode.MEMCHECK: ("M3", "M4", "M10"),
    Mode.RACECHECK: ("C1",),
    Mode.SYNCCHECK: ("C1",),
    Mode.INITCHECK: ("M5",),
}
_CAUSES: Mapping[Mode, Cause] = {
    Mode.MEMCHECK: Cause.OUT_OF_BOUNDS,
    Mode.RACECHECK: Cause.RACE,
    Mode.SYNCCHECK: Cause.BARRIER,
    Mode.INITCHECK: Cause.UNINITIALISED,
}


class Mem003(Check):
    """compute-sanitizer finds nothing in the kernels

    What it does
        Calls the kernel once on the smallest case below each tool of NVIDIA's
        compute-sanitizer: memcheck (accesses out of bounds or misaligned), racecheck (hazards
        in shared memory), synccheck (barriers that not all threads reach), initcheck (reads
        of device memory that nobody wrote). torch's caching allocator is off, so that a
        tensor ends where its allocation ends. Every tool has a time limit and a process of
        its own; the four run side by side.

    Why it matters
        A missing barrier gives right answers thousands of times and a wrong one in
        production; a load past the end reads the neighbour's tensor. The tools see the access
        itself, whether or not it changed a result this time.

    How it decides
        Only records about kernels that the candidate's sources define count. An invalid
        access, a barrier error and a hazard of level error reject. A hazard of level warning,
        such as a missing `__syncwarp`, and a read of memory that nobody wrote are advice: what
        was read may not be used, and MEM002 tells whether it is.

    Can it be wrong?
        One call on one small case shows what that case does. racecheck knows shared memory
        only, and may take an order that hardware guarantees for a hazard. Kernels of
        libraries that the candidate calls are not looked at.

    Example
        "racecheck: Race reported between Write access and Read access in row_sum
        (row_sum.cu:21)".

    Options
        --profile: standard and deep run it; deep gives each tool more time.
    """

    code = "MEM003"
    title = "compute-sanitizer finds nothing in the kernels"
    cause = Cause.OUT_OF_BOUNDS
    classes = ("M3", "M4", "M5", "C1")
    needs = Needs(split=Split.AT_ONCE, group=Group.NONE, gpu=True)

    def skip(self, trial: Trial) -> str:
        """Only CUDA kernels can be looked at; the tools take seconds each."""
        return "" if trial.effort.sanitizes else "standard and deep run it"

    def missing(self) -> str:
        """The tools are part of the CUDA toolkit, and not of its smallest installations."""
        return "" if find_sanitizer() else "compute-sanitizer was not found (CUDA_HOME, PATH)"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario a tool, on sizes that the kernel must accept."""
        axes = settings(trial)[-1:]  # the listed shape where small ones may be refused
        cases = [placed(case, sizes) for sizes in axes for case in trial.cases("small")[:1]]
        for case in cases:
            for tool in _TOOLS:
                yield Scenario(
                    label=f"{tool.value}: {case.label}",
                    cases=(case,),
                    steps=(
                        Allocate(slot="a", case=0),
                        Call(slot="a", result="r", poison=Poison.NONE),
                    ),
                    timeout_s=trial.effort.sanitizer_s,
                    mode=tool,
                )

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report the distinct faults of the candidate's own kernels."""
        called = done_steps(scenario, run.result, Call)
        facts = dict(called[0][1].facts) if called else {}
        status = facts.get("status", "the tool said nothing")
        if status == "no kernels of its own":
            return
        if status != "done":
            raise CannotJudgeError(f"{scenario.mode.value}: {status[:300]}")
        kernels = set(facts.get("kernels", "").split())
        records = parse_report(facts.get("report", ""), facts.get("log", ""))
        seen = dict.fromkeys(
            (r.level, r.text, r.kernel, r.at) for r in of_kernels(records, kernels)
        )
        firsts = [
            next(r for r in records if (r.level, r.text, r.kernel, r.at) == key) for key in seen
        ]
        for found in firsts[:_SHOWN]:
            advice = found.level == "warning" or scenario.mode is Mode.INITCHECK
            place = f" ({found.at})" if found.at else ""
            details = {
                "block": found.block,
                "thread": found.thread,
                "address": found.address,
                "bytes": found.size,
                "called from": found.host,
            }
            yield self.finding(
                f"{scenario.mode.value}: {found.text or found.kind} in {found.kernel}{place}",
                scenario=scenario,
                where=Where(axes=dict(scenario.cases[0].axes)),
                details=tuple((name, text) for name, text in details.items() if text),
                classes=_CLASSES[scenario.mode],
                cause=_CAUSES[scenario.mode],
                finding_class=FindingClass.ADVICE if advice else self.finding_class,
                severity=Severity.LOW if advice else self.severity,
            )

"""STREAM101: launches are in order with the work of the caller, on its stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuassay.checks.base import Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.machine.faults import (
    MachineCheck,
    machine_cases,
    recorded_calls,
    recorded_evidence,
)
from cuassay.errors import NothingToCheckError
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import MachineFault
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.recording import CallerOrder
from cuassay.model.scenario import Scenario
from cuassay.model.trace import ScenarioResult

_CONDITION = "streams: calls on the default stream"
_REMEDY = "launch on at::cuda::getCurrentCUDAStream()"
_NEVER = (
    "runs on a stream that no event or synchronization orders with the caller's stream: "
    f"{_REMEDY}, or record an event and let the caller's stream wait for it"
)
_DEFAULT = f"runs on the default stream, which is right only if its caller uses it too: {_REMEDY}"


class Stream101(MachineCheck):
    """Launches follow the caller's stream

    What it does
        Calls the extension's host code once without a GPU, where its streams, events and waits are
        kept account of: which of them puts a launch behind what the caller did before the call,
        and before what it does after it. It asks for a caller on the default stream, and for one
        on a stream of its own.

    Why it matters
        A launch on a stream of the pool that nobody waits for is right whenever the GPU is idle:
        the caller reads its result before it is written once it is not. No test of numbers sees it.

    How it decides
        A launch that is in order for no caller rejects: it reads inputs that may not be there, or
        its result is read too early. One that is in order for a caller on the default stream
        alone, as `kernel<<<grid, block>>>` without a stream, is a condition of use: torch's side
        streams do not wait for the default stream.

    Can it be wrong?
        Host code is seen as it ran for one case. Streams that Python code makes itself count as the
        default stream. Launches of Triton and of declared kernels have no stream of their own
        choice. Work of two callers at once is asked for on a GPU alone (STREAM001).

    Example
        "scale (scale.cu): runs on a stream that nothing orders with the caller's".

    Options
        --require streams makes the condition binding. On a GPU STREAM001 asks by timing.
    """

    code = "STREAM101"
    title = "Launches follow the caller's stream"
    cause = Cause.STREAM
    classes = ("A9", "H3")
    severity = Severity.CRITICAL
    kinds = frozenset()
    clean_words = "every launch is in order with the caller's stream"

    def skip(self, trial: Trial) -> str:
        """Only where no GPU is there to ask."""
        if trial.device.on_gpu:
            return "STREAM001 asks the GPU itself"
        return super().skip(trial)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one recorded call."""
        yield from recorded_calls(trial, machine_cases(trial)[:1])

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report launches that are not in order for every caller, one a kernel."""
        launches = recorded_evidence(trial, scenario, run).launches
        if all(one.order is None for one in launches):
            raise NothingToCheckError("none of its launches chooses a stream")
        said: set[str] = set()
        for one in launches:
            if one.order in (None, CallerOrder.ALWAYS) or one.kernel in said:
                continue
            said.add(one.kernel)
            never = one.order is CallerOrder.NEVER
            text = _NEVER if never else _DEFAULT
            yield self.finding(
                f"{one.kernel}: {text}",
                scenario=scenario,
                where=Where(axes=dict(scenario.cases[0].axes), group=one.kernel),
                finding_class=FindingClass.WRONG if never else FindingClass.UNSAFE,
                severity=Severity.CRITICAL if never else Severity.HIGH,
                condition="" if never else _CONDITION,
                statistic="order",
            )

    def reports(self, fault: MachineFault) -> bool:
        """No fault of a launch by itself is this check's business."""
        return False

    def said(self, trial: Trial, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Say what a pass is worth."""
        return f"{self.clean_words}, the default stream or another, as the call ran once"

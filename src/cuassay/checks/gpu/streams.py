"""STREAM001: calls on the caller's stream, behind and before other work on it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split, When
from cuassay.checks.plain_first import measured, other_values, with_scalars
from cuassay.checks.state.answers import Read, reads_of
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import ReadResult, Scenario, Step, call_steps
from cuassay.model.steps import StreamCall, Together
from cuassay.model.trace import done_steps

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison

_DELAY_MS = 40.0
_WAITED = 0.9  # of the delay: the call came back only when the device was done


class StreamTrying(enum.StrEnum):
    """What a scenario tries."""

    DEFAULT = "streams: consumer on the default stream"
    SIDE = "streams: producer and consumer on a side stream"
    BESIDE = "streams: a side stream beside a busy default stream"
    TWO = "streams: two streams at once"
    THREADS = "streams: two threads at once"

    @property
    def at_once(self) -> bool:
        """Whether two calls run at the same time."""
        return self in (StreamTrying.TWO, StreamTrying.THREADS)


class Stream001(Check):
    """Order on streams and threads

    What it does
        Puts 40 ms of other work on a stream, behind it a copy that changes the inputs, behind
        that the call, and behind that a copy of the result, while the host waits for nothing:
        on the default stream and on a side stream. Then the other way round: the 40 ms keep
        the default stream busy, while the call and the copy go to an idle side stream. Then two
        calls with other inputs at once, on two streams and from two threads. Free memory is
        poisoned before each call. A plain call comes first and must be right.

    Why it matters
        A kernel launched on the default stream, while the caller works on another one, reads
        inputs that are not there yet: 7 or 8 of 8 answers were stale in a library's report.
        The caller reads its result before it is written, and a CUDA graph, which is captured
        on a side stream, misses the kernel. Work on a private stream that nobody waits for
        looks fast and is read too early. A static workspace is overwritten by the call beside
        it.

    How it decides
        Every answer must be right for the inputs that its stream had put there. torch runs every
        operator on the current stream, and its side streams do not wait for the default stream
        (they are made with cudaStreamNonBlocking): a kernel on the default stream has no order
        with its caller, whether or not that stream is idle. An answer
        that is wrong while the caller uses one stream, the default stream or another one, is
        wrong. A fault that only two streams or two threads show is a condition of use. A call
        that returns only when the device has caught up is advice: it breaks overlap and graph
        capture.

    Can it be wrong?
        Where 40 ms are over before the call was made, nothing is shown. Overlap of two calls
        is likely, not certain. The reference goes through the same scenario first.

    Example
        `kernel<<<grid, block>>>` without a stream: "is wrong on a side stream behind other
        work: it gave the answer to the values that were there before".

    Options
        --require streams and --require threads make the conditions binding; --profile sets how
        often two calls run at once: 4, 24 or 200 times.
    """

    code = "STREAM001"
    title = "Order on streams and threads"
    cause = Cause.STREAM
    classes = ("A9", "H3", "S1")
    needs = Needs(when=When.EARLY, split=Split.ANY_SIDE, group=Group.NONE, gpu=True)
    severity = Severity.HIGH

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario a condition, the plainest first."""
        base = with_scalars(trial, trial.cases("small")[0])
        others = other_values(trial, base, 1, purpose=self.code)
        yield _one_stream(StreamTrying.DEFAULT, "default", (base, *others), delay_ms=_DELAY_MS)
        yield _one_stream(StreamTrying.SIDE, "side", (base, *others), delay_ms=_DELAY_MS)
        yield _one_stream(StreamTrying.BESIDE, "side", (base, *others), default_delay_ms=_DELAY_MS)
        rounds = trial.effort.stream_rounds
        yield _at_once(StreamTrying.TWO, (base, *others), rounds=rounds, threads=False)
        yield _at_once(StreamTrying.THREADS, (base, *others), rounds=rounds, threads=True)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame the condition where the plain calls are right and the others are not."""
        reads = reads_of(scenario, run)
        plain = 2 if StreamTrying(scenario.label).at_once else 1
        if len(reads) <= plain or any(answers.first_wrong(read) for read in reads[:plain]):
            return
        for read in reads[plain:]:
            found = answers.first_wrong(read)
            if found is not None:
                yield self._wrong(scenario, answers, read=read, found=found)
                return
        if scenario.label != StreamTrying.SIDE:
            return
        # When the last call gave control back: the first one on a stream may allocate
        calls = done_steps(scenario, run.result, StreamCall)
        if len(calls) < sum(isinstance(step, StreamCall) for step in scenario.steps):
            waited = None
        else:
            try:
                waited = float(dict(calls[-1][1].facts).get("host had control after ms", "nan"))
            except ValueError:
                waited = None
        if waited is None or waited < _WAITED * _DELAY_MS:
            return
        yield self.finding(
            f"each call waits for the device: it came back after {waited:.0f} ms of "
            f"{_DELAY_MS:.0f} ms of other work on its stream, so nothing overlaps with it",
            scenario=scenario,
            where=Where(axes=dict(scenario.cases[0].axes)),
            finding_class=FindingClass.ADVICE,
            severity=Severity.LOW,
        )

    def _wrong(
        self, scenario: Scenario, answers: Answers, *, read: Read, found: Comparison
    ) -> Finding:
        other, trying = answers.answer_to(read, scenario.cases), StreamTrying(scenario.label)
        said = {
            StreamTrying.DEFAULT: "its result is not ready for the next operation on the caller's "
            "stream",
            StreamTrying.SIDE: "is wrong on a side stream behind other work",
            StreamTrying.BESIDE: "its result is not ready for the next operation on the caller's "
            "stream, a side stream, while the default stream is busy",
            StreamTrying.TWO: "is wrong while another call runs on a second stream",
            StreamTrying.THREADS: "is wrong while another thread calls it as well",
        }[trying]
        if other is not None:
            said += ": it gave the answer to " + (
                "the other call's inputs" if trying.at_once else "the values that were there before"
            )
        extra = measured(found, read.case)
        if not trying.at_once:
            extra |= {"finding_class": FindingClass.WRONG, "severity": Severity.CRITICAL}
        else:
            condition = (
                "threads: calls from one thread at a time"
                if trying is StreamTrying.THREADS
                else "streams: one stream at a time"
            )
            extra |= {"finding_class": FindingClass.UNSAFE, "condition": condition}
        return self.finding(
            f"{said} ({found.output})", scenario=scenario, statistic="order", **extra
        )


def _one_stream(
    trying: StreamTrying,
    stream: str,
    cases: Sequence[Case],
    *,
    delay_ms: float = 0.0,
    default_delay_ms: float = 0.0,
) -> Scenario:
    steps: list[Step] = [*call_steps("a", 0, "plain")]
    for number in (1, 0):  # there and back: one of the two cannot be what lay there by luck
        steps += [
            StreamCall(
                slot="a",
                result=f"r{number}",
                case=number,
                stream=stream,
                delay_ms=delay_ms,
                default_delay_ms=default_delay_ms,
            ),
            ReadResult(result=f"r{number}"),
        ]
    return Scenario(label=trying, cases=tuple(cases), steps=tuple(steps))


def _at_once(
    trying: StreamTrying, cases: Sequence[Case], *, rounds: int, threads: bool
) -> Scenario:
    steps: list[Step] = []
    for number in range(2):
        steps += call_steps(f"s{number}", number, f"plain{number}")
    together = Together(
        slots=("s0", "s1"), results=("r0", "r1"), threads=threads, rounds=rounds, delay_ms=5.0
    )
    steps += [together, ReadResult(result="r0"), ReadResult(result="r1")]
    return Scenario(label=trying, cases=tuple(cases), steps=tuple(steps))

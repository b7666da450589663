"""KERNEL001: which kernels a call runs, what they need, and whether they need aligned pointers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import exception_text, first_raised, memory_fault
from cuassay.checks.follow import lies_elsewhere
from cuassay.checks.judgement import Answers
from cuassay.checks.kernels.facts import Code, Kernels, kernels_of
from cuassay.checks.needs import Group, Needs, Process, Split, When
from cuassay.checks.state.answers import reads_of
from cuassay.errors import CannotJudgeError
from cuassay.inputs.geometry import tensor_inputs
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Allocate, Call, ReadResult, Release, Scenario, call_steps
from cuassay.model.steps import Arrange, Inspect, Layout
from cuassay.model.trace import ScenarioResult, done_steps

_MOST_OF_IT = 0.5  # share of the GPU's time above which somebody else's kernel does the work
_WIDE = 8  # bytes at once: more than one element of every dtype that cuassay knows
_NAMED = 3


class Kernel001(Check):
    """The kernels of a call

    What it does
        Runs one call under torch's profiler and lists the kernels with their time, registers,
        shared memory and occupancy. Reads the candidate's own machine code with cuobjdump:
        registers, local memory (spills and indexed arrays) and the widest access of one thread
        to device memory. Then every input begins one element into its allocation, and the
        call has to be right again.

    Why it matters
        A wrapper around a library's kernel is not the kernel that was reviewed. Spills and a
        near-empty GPU explain a disappointing time. A 16-byte load is right on fresh tensors
        and faults, or reads something else, on a view that begins at an odd element.

    How it decides
        A call without any kernel, own kernels that take less than half of the GPU's time, and
        local memory in own kernels are advice. A wrong answer or a misaligned address on
        offset inputs, where the plain call is right, is a condition of use; it names the
        kernel with the wide access. All else is evidence in the report.

    Can it be wrong?
        What it lists is said by the candidate's process, and could be forged; nothing is
        rejected by it. The profiler's occupancy is an estimate. A kernel that calls a library
        for most of its work on purpose is told so. Wide accesses count whether or not a check
        of the pointer stands before them: the call on offset inputs decides.

    Example
        "'add_rows' reads 16 bytes at once; with every input one element into its allocation
        the call ends in RuntimeError: CUDA error: misaligned address".

    Options
        --require own-kernels or layouts makes the conditions binding.
    """

    code = "KERNEL001"
    title = "The kernels of a call"
    classes = ("H8", "M10", "M6")
    # The last of those that take the process at hand: the profiler stays in it, and a fault on
    # offset inputs ends it. The plain call that comes first launches the kernels as they are, where
    # RACE001 has compiled some with pauses.
    needs = Needs(
        process=Process.OWN, when=When.LATE, split=Split.ANY_SIDE, group=Group.NONE, gpu=True
    )
    finding_class = FindingClass.ADVICE
    severity = Severity.LOW
    judges_failures = True
    least_decided = 0.0  # what it shows is advice

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one process: a plain call, one that is profiled, one on offset inputs."""
        # The numeric case that cases begin with: of a usual size, where time says something.
        legal = [case for case in trial.cases("numeric") if case.in_domain]
        for case in legal[:1] or list(trial.cases("small")[:1]):
            names = [spec.name for spec in tensor_inputs(trial.problem) if spec.shape]
            steps = (
                *call_steps("a", 0, "plain"),
                Inspect(slot="a"),
                Release(name="a"),
                Allocate(slot="b", case=0),
                Arrange(slot="b", layouts=dict.fromkeys(names, Layout.OFFSET)),
                Call(slot="b", result="offset"),
                ReadResult(result="offset"),
            )
            yield Scenario(label=f"kernels: {case.label}", cases=(case,), steps=steps, fresh=True)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Look at the list, then at the call on offset inputs."""
        reads, looked = reads_of(scenario, run), done_steps(scenario, run.result, Inspect)
        if not reads or answers.first_wrong(reads[0]):
            raise CannotJudgeError("the plain call fails already")
        if not looked:
            raise CannotJudgeError("the call under the profiler did not come to its end")
        seen = kernels_of(dict(looked[0][1].facts))
        place = Where(axes=dict(scenario.cases[0].axes))
        extra: dict[str, Any] = {"where": place, "details": _rows(seen)}
        if not seen.ran and not seen.blind:
            text = "no kernel ran on the GPU: the answer comes from somewhere else"
            condition = f"own-kernels: {text}"
            yield self.finding(
                text, scenario=scenario, condition=condition, severity=Severity.HIGH, **extra
            )
        others = [kernel for kernel in seen.ran if not seen.is_own(kernel.name)]
        if seen.own and others and seen.own_us < _MOST_OF_IT * seen.all_us:  # so all_us > 0
            share = seen.own_us / seen.all_us
            first = max(others, key=lambda kernel: kernel.took_us)
            text = (
                f"its own kernels take {share:.0%} of the GPU's time; most goes into "
                f"'{first.name}' ({first.took_us / seen.all_us:.0%})"
            )
            yield self.finding(text, scenario=scenario, condition=f"own-kernels: {text}", **extra)
        spilling = [code for code in _own_code(seen) if code.local_accesses]
        if spilling:
            text = ", ".join(
                f"'{c.name}' uses {c.stack_bytes} bytes of local memory a thread "
                f"({c.local_accesses} accesses in its code)"
                for c in spilling[:_NAMED]
            )
            yield self.finding(
                f"{text}: spilled registers or arrays with computed indices",
                scenario=scenario,
                **extra,
            )
        yield from self._offset(scenario, run, answers, seen)

    def remark(self, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Return what the candidate's kernels need, in words."""
        for scenario, result in seen:
            for _, record in done_steps(scenario, result, Inspect):
                return _in_words(kernels_of(dict(record.facts)))
        return ""

    def _offset(
        self, scenario: Scenario, run: Run, answers: Answers, seen: Kernels
    ) -> Iterator[Finding]:
        """Report the call on offset inputs if it faults or is wrong; an exception is honest."""
        arranged = done_steps(scenario, run.result, Arrange)
        if not arranged or lies_elsewhere(arranged[0][1]):
            return
        raised = first_raised(run)
        reads = {read.result: read for read in reads_of(scenario, run)}
        if raised is not None and memory_fault(raised):
            what = f"the call ends in {exception_text(raised)}"
        elif "offset" in reads and answers.first_wrong(reads["offset"]):
            what = "the call gives wrong numbers"
        else:
            return
        wide = [c for c in _own_code(seen) if c.widest_bytes >= _WIDE]
        reason = f"'{wide[0].name}' moves {wide[0].widest_bytes} bytes at once; " if wide else ""
        yield self.finding(
            f"{reason}with every input one element into its allocation {what}",
            scenario=scenario,
            finding_class=FindingClass.UNSAFE,
            severity=Severity.HIGH,
            condition=f"layouts: aligned inputs only ({reason}{what} on others)",
            where=Where(axes=dict(scenario.cases[0].axes)),
            details=_rows(seen),
        )


def _own_code(seen: Kernels) -> list[Code]:
    """Return the machine code of kernels that ran, or of all where the profiler saw nothing."""
    ran = {kernel.name for kernel in seen.ran}
    return [code for code in seen.code if not ran or any(code.name in name for name in ran)]


def _rows(seen: Kernels) -> tuple[tuple[str, str], ...]:
    ran = [
        (
            kernel.name,
            f"{kernel.count} x, {kernel.took_us:.1f} us, {kernel.registers} registers, "
            f"{kernel.threads} threads a block, {kernel.shared_bytes} bytes shared, "
            f"occupancy about {kernel.occupancy} %"
            f"{'' if seen.is_own(kernel.name) else ', not its own'}",
        )
        for kernel in seen.ran[:6]
    ]
    code = [
        (
            f"code of {code.name}",
            f"{code.registers} registers, {code.stack_bytes} bytes of local memory, "
            f"{code.wide_accesses} accesses of {code.widest_bytes} bytes",
        )
        for code in _own_code(seen)[:6]
    ]
    return (*ran, *code)


def _in_words(seen: Kernels) -> str:
    """Return a sentence for the report: the kernels that ran, and what is not known."""
    parts = []
    for kernel in [k for k in seen.ran if seen.is_own(k.name)][:_NAMED] or seen.ran[:_NAMED]:
        code = next((c for c in seen.code if c.name in kernel.name), None)
        text = f"'{kernel.name[:40]}' {kernel.registers} registers, occupancy {kernel.occupancy} %"
        if code is not None:
            text += f", {code.widest_bytes}-byte accesses"
            text += f", {code.stack_bytes} bytes of local memory" if code.local_accesses else ""
        parts.append(text)
    parts += [f"profiler: {seen.blind}"] if seen.blind else []
    parts += [f"machine code: {seen.unread}"] if seen.unread else []
    return "; ".join(parts)

"""COMPILE001: inside a compiled function it gives what it gives in eager mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.endings.findings import exception_text, first_raised
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Process, Split, When
from cuassay.checks.plain_first import measured, other_values
from cuassay.checks.state.answers import placed, reads_of
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Allocate, Call, ReadResult, Refill, Scenario, Step
from cuassay.model.steps import CompiledCall
from cuassay.model.trace import Claim, Finished, StepRaised

_TIMEOUT_S = 150.0  # a step may compile
_TOOLS = ("C compiler", "C++ compiler", "InvalidCxxCompiler", "TritonMissing")


class Compile001(Check):
    """Inside torch.compile

    What it does
        Calls the candidate from a function that torch.compile has compiled, which copies what
        the call gives: on the inputs of a plain call, on other values in the same tensors and
        with other scalars, and on another shape. On a GPU Inductor compiles; on a CPU its
        front (`aot_eager`).

    Why it matters
        Models are compiled. The compiler traces Python once and keeps what it saw: a value
        read on the host, a branch, a table. It trusts what custom operators say of themselves
        and removes calls whose effect they do not mention.

    How it decides
        A compiled call that is wrong where plain calls in the same process are right, or that
        raises where they do not, makes the kernel unsafe inside compiled functions: a
        condition of use. The reference goes through the same; what it shows is not reported.

    Can it be wrong?
        A fault of the compiler itself would be laid at the kernel's door where the reference
        does not have it. A graph break is fine. Raw CUDA kernels are not tried, nor, on a CPU,
        candidates that mention Triton or CUDA. Gradients through compiled functions are not
        tried.

    Example
        An operator that fills its second argument and declares `mutates_args=()`: the compiled
        call returns memory that nobody wrote.

    Options
        --profile standard and deep run it; --require compile makes the condition binding.
    """

    code = "COMPILE001"
    title = "Inside torch.compile"
    cause = Cause.COMPILED
    classes = ("A14", "A5")
    needs = Needs(process=Process.OWN, when=When.EARLY, split=Split.ANY_SIDE, group=Group.NONE)
    finding_class = FindingClass.UNSAFE
    severity = Severity.HIGH
    judges_failures = True
    least_decided = 0.0  # torch.compile may lack a tool that a plain call does not need

    def skip(self, trial: Trial) -> str:
        """Compiling takes seconds."""
        return "" if trial.effort.compiles else "standard and deep run it"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one process: the same shape with other values, then another shape."""
        small = trial.cases("small")
        if not small:
            return
        cases = [small[0], *other_values(trial, small[0], 1, purpose=self.code)]
        other = cases[1]
        base = dict(other.axes)
        other_shape = []
        for case in trial.cases("shapes"):
            if case.in_domain and dict(case.axes) != base and min(case.axes.values(), default=0):
                other_shape = [placed(other, case.axes)]
                break
        cases += other_shape
        steps = [Allocate(slot="a", case=0), *_both("a", 0), Refill(slot="a", case=1)]
        steps += _both("a", 1)
        if len(cases) > 2:
            steps += [Allocate(slot="b", case=2), *_both("b", 2)]
        yield Scenario(
            label="torch.compile",
            cases=tuple(cases),
            steps=tuple(steps),
            timeout_s=_TIMEOUT_S,
            fresh=True,
        )

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame the first compiled call that raises or is wrong where the plain one is right."""
        # Say why nothing was compiled. Raises CannotJudgeError or its kin.
        if not isinstance(run.result.termination, Finished):
            raise CannotJudgeError("the process that compiles it did not come to its end")
        for index, step in enumerate(scenario.steps):
            record = done(run, index)
            if isinstance(step, CompiledCall) and record is not None:
                skipped = dict(record.facts).get("skipped", "")
                if skipped:
                    raise NothingToCheckError(skipped[:200])
        raised = first_raised(run)
        by_name = {read.result: read for read in reads_of(scenario, run)}
        for number in range(len(scenario.cases)):
            plain, inside = by_name.get(f"plain{number}"), by_name.get(f"compiled{number}")
            if plain is None or answers.first_wrong(plain):
                return
            if inside is None:
                if raised is not None and isinstance(scenario.steps[raised.index], CompiledCall):
                    yield self._raises(scenario, raised)
                return
            found = answers.first_wrong(inside)
            if found is not None:
                text = (
                    "called from a compiled function it gives a wrong answer, a plain call "
                    "a right one"
                )
                if answers.answer_to(inside, scenario.cases) is not None:
                    text += ": the one to values that were there when it was compiled"
                yield self.finding(
                    f"{text} ({found.output})",
                    scenario=scenario,
                    condition="compile: not inside torch.compile, where it gives wrong answers",
                    **measured(found, inside.case),
                )
                return

    def _raises(self, scenario: Scenario, raised: StepRaised) -> Finding:
        text = exception_text(raised)
        if raised.claim is Claim.NO_MEMORY or any(tool in text for tool in _TOOLS):
            raise CannotJudgeError(f"torch.compile cannot compile here: {text[:200]}")
        return self.finding(
            f"called from a compiled function it raises, and a plain call does not: {text}",
            scenario=scenario,
            where=Where(axes=dict(scenario.cases[0].axes)),
            condition="compile: not inside torch.compile, where it raises",
            evidence=raised.traceback[-4000:],
        )


def _both(slot: str, number: int) -> list[Step]:
    """Return a plain call and a compiled one on the same values, read one after the other."""
    plain, inside = f"plain{number}", f"compiled{number}"
    return [
        Call(slot=slot, result=plain),
        ReadResult(result=plain),
        CompiledCall(slot=slot, result=inside),
        ReadResult(result=inside),
    ]

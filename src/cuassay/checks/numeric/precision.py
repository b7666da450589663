"""NUM003: which precision a kernel keeps, where the policy accepts less than the reference's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, When
from cuassay.checks.numeric.common import details, single_call, where
from cuassay.checks.state.answers import reads_of
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.scenario import Scenario

_SHOWN = 1  # cases on which the condition is shown: one explains it


class Num003(Check):
    """The precision that the kernel keeps

    What it does
        Names the least precise family of trusted kernels that was needed to explain the
        kernel's errors on all the cases of the other checks, and calls the kernel again on the
        first such case.

    Why it matters
        A kernel that stores intermediates in bfloat16 does what autocast and tensor cores do,
        and is off by several times the error of the reference. Whoever replaces a float32
        reference by it should know.

    How it decides
        Four families are tried in order: `strict` (the reference's own arithmetic), `tf32`
        (operands of float32 products rounded to TF32), `mixed` (elementwise intermediates rounded
        once to the problem's 16-bit type, float32 inputs cast where they meet it, sums in float32)
        and `fp8` (products of 8-bit floats summed in the short accumulators of tensor cores). The
        policy says which are accepted: `mixed` where all large inputs and outputs have 16 bits,
        `fp8` where large inputs are 8-bit floats, `strict` otherwise, unless the problem,
        cuassay.toml or `--precision` says so. Worse than the policy is rejected by NUM001; worse
        than `strict` within it is this condition.

    Can it be wrong?
        Sums kept in 16 bits over short lengths may look like 16-bit intermediates; NUM002
        rejects them by their growth. A family whose own error exceeds a quarter of the output
        decides nothing about that case.

    Example
        A SwiGLU backward pass that stores gradients in bfloat16 between two products is
        accepted under "precision: 16-bit intermediates".

    Options
        --precision strict|tf32|mixed|fp8; --require precision rejects what meets the condition.
    """

    code = "NUM003"
    title = "The precision that the kernel keeps"
    classes = ("N1", "N4")
    ranks = True
    needs = Needs(when=When.AFTER_SIDES, group=Group.SHAPES)
    finding_class = FindingClass.UNSAFE
    severity = Severity.LOW

    def skip(self, trial: Trial) -> str:
        """Return that the policy accepts one family alone, or an empty string."""
        if policy_of(trial.problem) is Precision.STRICT:
            return "the precision policy is strict: NUM001 rejects anything less"
        return "" if trial.lowered else "no error needed more than the reference's own precision"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a plain call on the first case that needed a wider family."""
        for case in trial.lowered[:_SHOWN]:
            yield single_call(case, label=f"precision: {case.label}")

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Name the family, with the error that the strict one measures."""
        read = next(iter(reads_of(scenario, run)), None)
        if read is None:
            return
        strict = trial.compare(read.case, run, read.items, precision=Precision.STRICT)
        found = answers.compare(read.case, read.items)
        for least, comparison in zip(found, strict, strict=True):
            worst = comparison.worst
            # A wider family that explained other answers is asked first: the strict one may do too.
            if least.precision is Precision.STRICT or not least.passed or comparison.passed:
                continue
            if worst is None:
                continue
            yield self.finding(
                f"{least.output}: the error needs {least.precision.condition.partition(': ')[2]} "
                f"to be explained: relative error {least.relative_error:.2e}, where a kernel in "
                f"the reference's own precision has {comparison.trusted_relative_error:.2e}",
                scenario=scenario,
                measured=worst.value,
                allowed=worst.limit,
                statistic=worst.name,
                where=where(comparison, read.case, worst),
                condition=least.precision.condition,
                details=details(comparison),
            )
            return

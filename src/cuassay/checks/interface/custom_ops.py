"""OPCHECK001: custom operators keep what they promise torch's dispatcher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Process, Split, When
from cuassay.checks.state.answers import reads_of
from cuassay.errors import NothingToCheckError
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Scenario, call_steps
from cuassay.model.steps import OpCheck
from cuassay.model.trace import done_steps

_MEANING = {
    "test_schema": "its schema does not say what it writes to or shares",
    "test_autograd_registration": "its gradient is registered where autograd does not look",
    "test_faketensor": "its fake kernel is missing or gives other sizes, strides or dtypes",
    "test_aot_dispatch_dynamic": "traced with sizes unknown it gives other results",
}
_REGISTRATION = "test_autograd_registration"
_SHOWN = 3


class Opcheck001(Check):
    """Custom operators keep torch's contract

    What it does
        Watches which custom operators the candidate calls, registered with `torch.library` or
        in C++, and puts each through `torch.library.opcheck` on the arguments it was called
        with: the schema's word on mutation and aliasing, the fake kernel, the registration of
        the gradient, tracing with unknown sizes. Operators that bring a derivative are also
        checked on inputs that require gradients.

    Why it matters
        torch.compile believes the schema and the fake kernel. A write that the schema does not
        mention is removed as dead code; wrong strides are read as they were announced; both
        are silent. Eager calls, as in most tests, show nothing.

    How it decides
        What opcheck fails makes the operator unsafe below torch.compile and autograd: a
        condition of use, not a wrong answer. A gradient that flows through the operator and is
        not registered with autograd is advice: an operator for inference needs none. Where
        the plain call is wrong nothing is said.

    Can it be wrong?
        opcheck looks at one call, with the strides and sizes of that call. Operators that are
        only called in a backward pass are not seen, nor those beyond the first eight. On a CPU
        candidates that mention Triton or CUDA are not checked.

    Example
        `custom_op("lib::fill", mutates_args=())` that writes its second argument: "Argument
        out is not defined as mutable but was mutated".

    Options
        --require compile makes the condition binding.
    """

    code = "OPCHECK001"
    title = "Custom operators keep torch's contract"
    cause = Cause.CUSTOM_OPERATOR
    classes = ("A14", "A11")
    needs = Needs(process=Process.OWN, when=When.LATE, split=Split.ANY_SIDE, group=Group.NONE)
    finding_class = FindingClass.UNSAFE
    severity = Severity.HIGH

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a plain call and a call that is watched, on the smallest case."""
        for case in trial.cases("small")[:1]:
            steps = (
                *call_steps("a", 0, "plain"),
                OpCheck(slot="a"),
            )
            yield Scenario(label="custom operators", cases=(case,), steps=steps, fresh=True)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report what opcheck fails; NothingToCheckError without operators."""
        reads, watched = reads_of(scenario, run), done_steps(scenario, run.result, OpCheck)
        if not watched or not reads or answers.first_wrong(reads[0]):
            return
        facts = dict(watched[0][1].facts)
        if "skipped" in facts:
            raise NothingToCheckError(_plain(facts["skipped"]))
        if not any(name.startswith("operator ") for name in facts):
            raise NothingToCheckError("it calls no custom operator")
        failed: dict[str, list[tuple[str, str]]] = {}
        for name, why in facts.items():
            kind, _, rest = name.partition(" ")
            operator, _, test = rest.rpartition(" ")
            if kind == "failed" and operator:
                failed.setdefault(_plain(operator), []).append((_plain(test), _plain(why)))
        for operator, tests in list(failed.items())[:_SHOWN]:
            binding = [each for each in tests if each[0] != _REGISTRATION]
            test, why = (binding or tests)[0]
            meaning = _MEANING.get(test, "it fails opcheck")
            where_not = f"not below torch.compile or autograd ({operator}: {meaning})"
            fields: dict[str, Any] = {"condition": f"compile: {where_not}"}
            as_advice = {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW}
            yield self.finding(
                f"the custom operator {operator} breaks its contract: {meaning}; {test}: {why}",
                scenario=scenario,
                where=Where(axes=dict(scenario.cases[0].axes)),
                details=tuple(tests),
                **(fields if binding else as_advice),
            )


def _plain(text: str) -> str:
    """Return a worker's text without control characters, cut to a sentence's length."""
    return "".join(c for c in text if c.isprintable())[:300]

"""How the checks judge one call that may end in any way, and refusals are no business of theirs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.numeric.common import comparison_finding
from cuassay.checks.state.answers import reads_of
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario

if TYPE_CHECKING:
    import torch

    from cuassay.oracle.compare.outputs import Comparison

_SUMS = frozenset({"G", "Z", "P"})


def judge_one_call(
    check: Check, trial: Trial, scenario: Scenario, run: Run, answers: Answers, *, lead: str
) -> Iterator[Finding]:
    """Yield what is wrong with a `single_call` scenario: how it ended, else its numbers.

    A size that the kernel refuses and nobody promised is left to SHP001, which makes it a
    condition of use. Of a check that asks only whether an answer is right, what is explained
    needs no full truth.
    """
    case = scenario.cases[0]
    ended = termination_finding(scenario, run, problem=trial.problem)
    if ended is not None:
        if ended.finding_class is FindingClass.WRONG:
            yield ended
        return
    for read in reads_of(scenario, run):
        for comparison in answers.wrong(read, closely=not check.asks_right):
            outputs = trial.truth(case).outputs
            truth = next((one for one in outputs if one.name == comparison.output), None)
            if not (truth and copies_explain(truth.value, comparison)):
                yield comparison_finding(check, trial, scenario, case, comparison, lead=lead)


def copies_explain(truth: torch.Tensor, comparison: Comparison) -> bool:
    """Whether a sum of errors only fails because equal answers count many times.

    A recipe may give the same row many times over (constant logits, rows of one element).
    Equal inputs give equal errors: a sum over n elements of d distinct values has the spread
    of d, so each sum's limit grows by sqrt(n / d). Single elements are judged as ever.
    """
    over = [found for found in comparison.statistics if found.value > found.limit]
    if comparison.mismatch or not over or any(found.name not in _SUMS for found in over):
        return False
    ordered = truth.reshape(-1).sort().values
    distinct = 1 + int((ordered[1:] != ordered[:-1]).sum())
    spread = math.sqrt(truth.numel() / distinct)
    return all(found.value <= found.limit * spread for found in over)

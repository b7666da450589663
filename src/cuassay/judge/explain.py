"""After the decision: the smallest failing inputs, the causes, and the lines that reports show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cuassay.diagnosis import diagnose
from cuassay.judge.diagnose.blamed_lines import with_text
from cuassay.judge.diagnose.clues import gather
from cuassay.judge.diagnose.minimise import Minimiser, convinces
from cuassay.judge.diagnose.source_views import source_views
from cuassay.judge.run.executor import Executor
from cuassay.model.candidate import Candidate
from cuassay.model.diagnosis import Diagnosis
from cuassay.model.events import Progress
from cuassay.model.machine import SourceView
from cuassay.model.outcome import CheckReport, Failed, Finding
from cuassay.model.verdict import Lane
from cuassay.sandbox.host.kept_kernels import lay_out_choices

if TYPE_CHECKING:
    from cuassay.judge.bench import Bench
    from cuassay.judge.decide.control import Control

_GROSS_S = 4.0  # of experiments about a kernel of which nothing is right
_MINIMISED = 2  # findings that get a minimal counterexample: the worst ones


def with_smallest_inputs(
    bench: Bench, reports: Sequence[CheckReport], executor: Executor, control: Control
) -> tuple[CheckReport, ...]:
    """Give the worst wrong findings a minimal counterexample: one a check, and one a cause.

    Causes are told by the findings alone here: one that experiments tell apart later shares one.
    """
    by_code = {check.code: check for check in bench.plan.checks}
    out = list(reports)
    left = _MINIMISED
    for place, report in enumerate(reports):
        worst = max(  # whose counterexample would convince best: gross errors first
            filter(_shrinks, report.wrong),
            key=lambda finding: (convinces(finding), finding.share or 0.0),
            default=None,
        )
        if not left or worst is None or report.code not in by_code:
            continue
        causes = diagnose(_findings(out))
        if any(worst.id in made.findings and made.example for made in causes):
            continue
        left -= 1
        bench.emit(Progress(text=f"smallest failing input for {report.code}"))
        minimiser = Minimiser(bench.trial, by_code[report.code], run=executor, control=control)
        assert isinstance(report.outcome, Failed)
        rest = [found for found in report.outcome.findings if found is not worst]
        with bench.trial.timeline.span(Lane.JUDGE, f"smallest input for {report.code}"):
            findings = (minimiser.minimise(worst), *rest)
        out[place] = replace(report, outcome=replace(report.outcome, findings=findings))
    return tuple(out)


def _shrinks(finding: Finding) -> bool:
    """Whether a finding is about one case that is no state of a loop."""
    cases = finding.scenario.cases if finding.scenario is not None else ()
    return len(cases) == 1 and cases[0].state is None


def causes_of(
    bench: Bench,
    reports: Sequence[CheckReport],
    before: Sequence[CheckReport],
    executor: Executor,
    *,
    gross: bool,
) -> tuple[Diagnosis, ...]:
    """Return the causes of what was found, by experiments with the candidate.

    They use the cases on which it was first found (`before`): a smallest one may be of values that
    have no recipe at other sizes. For a kernel that is wrong on every input (`gross`) they are few.
    """
    if not any(report.wrong for report in reports):
        return ()
    found = _findings(reports)
    scenarios = {finding.id: finding.scenario for finding in _findings(before)}
    seen = [replace(f, scenario=scenarios.get(f.id) or f.scenario) for f in found]

    def runs(edited: Candidate) -> Executor:
        made = bench.plan.start(
            bench.trial,
            edited,
            device=bench.device,
            nursery=executor.pool.nursery,
            spares=0,
            host=bench.host,
        )
        if bench.on_gpu:  # its autotuners choose as those of the candidate
            lay_out_choices(executor.pool.folder, made.pool.folder)
        return made

    clues = bench.optional(
        "the cause",
        lambda: gather(
            bench.trial,
            executor,
            bench.candidate,
            seen,
            bench.machine.seen,
            limit_s=_GROSS_S if gross else math.inf,
            runs=runs,
        ),
    )
    return tuple(with_text(made, bench.candidate) for made in diagnose(found, clues))


def _findings(reports: Sequence[CheckReport]) -> list[Finding]:
    outcomes = [report.outcome for report in reports]
    return [f for one in outcomes if isinstance(one, Failed) for f in one.findings]


def lead(diagnoses: Sequence[Diagnosis]) -> str:
    """Return the first cause and its line, which a rejection begins with; '' for none."""
    if not diagnoses:
        return ""
    first = diagnoses[0]
    where = f" ({first.line.file}:{first.line.line})" if first.line is not None else ""
    return f"{first.words.rstrip('.')}{where}"


def shown_sources(bench: Bench, diagnoses: Sequence[Diagnosis]) -> tuple[SourceView, ...]:
    """Return the files that reports show: those of findings, and those that a cause names."""
    candidate = bench.candidate
    views = source_views(candidate, bench.machine.seen)
    blamed = {made.line.file for made in diagnoses if made.line is not None}
    named = blamed - {view.file for view in views}
    more = [source for source in candidate.sources if source.path in named]
    return (*views, *(SourceView(file=source.path, text=source.text) for source in more))

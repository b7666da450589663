"""The words that every sink shares: numbers, outcomes, their verdict beside ours, what was left.

Everything here is plain text that is already cleaned; sinks only escape and lay out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from cuassay.diagnosis import diagnose
from cuassay.model.diagnosis import Diagnosis, SourceLine
from cuassay.model.outcome import (
    CheckReport,
    Errored,
    Failed,
    Finding,
    FindingClass,
    Growth,
    Inconclusive,
    Passed,
    Skipped,
)
from cuassay.model.proofs import ProofAnswer
from cuassay.model.scope import Scope, scope_lines
from cuassay.model.told import told_apart
from cuassay.model.verdict import AxisCoverage, Decision, Power, Profile, Speed, Verdict
from cuassay.model.walls import STANDS
from cuassay.report.clean import clean, one_line

_ROW = 240  # longest line of code that is shown
_TOLD = 8  # sizes of one axis that are listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Their verdict and ours, a word and a sentence each; `differ` where the words disagree."""

    theirs: str
    theirs_why: str
    ours: str
    ours_why: str
    differ: bool


_NO_GRADE = "the error is larger than any usual precision explains"


def number(value: float | None) -> str:
    """Return a number with three significant digits, thousands spaced, never a bare exponent."""
    if value is None:
        return "not measured"
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e7 or size < 1e-4:
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e+").replace("e+", "e")
    if size >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    text = f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: int) -> str:
    """Return an integer with spaced thousands."""
    return f"{value:,}".replace(",", " ")


def times(share: float | None) -> str:
    """Return a share in words: `73 % of the allowed error`, `18.4 times the allowed error`."""
    if share is None:
        return ""
    if not math.isfinite(share):
        return f"{number(share)} times the allowed error" if share > 0 else number(share)
    if share > 1:
        return f"{number(share)} times the allowed error"
    return f"{share * 100:.0f} % of the allowed error"


def seconds(value_s: float) -> str:
    """Return a duration that a person reads at a glance."""
    if value_s >= 120:
        return f"{int(value_s // 60)} min {int(value_s % 60)} s"
    return f"{value_s:.1f} s" if value_s >= 0.095 or value_s == 0 else f"{value_s * 1000:.0f} ms"


def outcome_word(check: CheckReport) -> str:
    """Return passed, failed, inconclusive, skipped or errored."""
    match check.outcome:
        case Passed():
            return "passed"
        case Failed():
            return "failed"
        case Inconclusive():
            return "inconclusive"
        case Skipped():
            return "skipped"
        case Errored():
            return "errored"
        case _:
            assert_never(check.outcome)


def outcome_share(check: CheckReport) -> float | None:
    """Return the largest part of a budget that the check saw used, or None."""
    match check.outcome:
        case Passed(share=share):
            return share
        case Failed(findings=findings):
            return max((f.share for f in findings if f.share is not None), default=None)
        case _:
            return None


def outcome_reason(check: CheckReport) -> str:
    """Return why a check ended as it did, in one line; empty for a plain pass."""
    match check.outcome:
        case Passed(summary=summary):
            return one_line(summary)
        case Failed(findings=findings, summary=summary):
            return one_line(summary or (findings[0].message if findings else ""))
        case Inconclusive(reason=reason) | Skipped(reason=reason) | Errored(reason=reason):
            return one_line(reason)
        case _:
            assert_never(check.outcome)


def applies(check: CheckReport) -> bool:
    """Return whether the problem has anything for the check to look at."""
    return not isinstance(check.outcome, Skipped) or check.outcome.applicable


def counts_line(verdict: Verdict) -> str:
    """Return how the checks ended in one line: `28 passed, 2 failed, 9 do not apply`."""
    counts = dict.fromkeys(("passed", "condition", "failed", "undecided", "gpu", "apply"), 0)
    for check in verdict.checks:
        word = outcome_word(check)
        if word == "failed":
            counts["condition" if only_condition(check) else "failed"] += 1
        elif word == "skipped":
            counts["gpu" if _needs_gpu(check) else "undecided" if applies(check) else "apply"] += 1
        else:
            counts["passed" if word == "passed" else "undecided"] += 1
    told = {
        "passed": "passed",
        "condition": "hold under a condition",
        "failed": "failed",
        "undecided": "not decided",
        "gpu": "need an NVIDIA GPU",
        "apply": "do not apply",
    }
    return ", ".join(f"{number} {told[name]}" for name, number in counts.items() if number)


def undecided(verdict: Verdict) -> tuple[str, ...]:
    """Return the checks that apply and gave no answer, one a line, those without a GPU left out."""
    return tuple(
        f"{one_line(check.code)} {one_line(check.title, limit=80)}: {outcome_reason(check)}"
        for check in verdict.checks
        if outcome_word(check) in ("inconclusive", "skipped", "errored")
        and applies(check)
        and not _needs_gpu(check)
    )


def _needs_gpu(check: CheckReport) -> bool:
    return isinstance(check.outcome, Skipped) and check.outcome.needs_gpu


def only_condition(check: CheckReport) -> bool:
    """Return whether the check failed with nothing worse than a condition of use."""
    failed = check.outcome if isinstance(check.outcome, Failed) else None
    return failed is not None and all(
        finding.finding_class is not FindingClass.WRONG for finding in failed.findings
    )


def identified(verdict: Verdict) -> tuple[Finding, ...]:
    """Return the findings, each with an id (F1, F2...) and a replay command.

    Those of the first diagnosis come first, its most telling one in front.
    """
    named = _named(verdict)
    order = [one for made in diagnosed(verdict) for one in made.findings]
    place = {name: position for position, name in reversed([*enumerate(order)])}
    return tuple(sorted(named, key=lambda found: place.get(found.id, len(order))))


def diagnosed(verdict: Verdict) -> tuple[Diagnosis, ...]:
    """Return the causes of a rejection, the one to repair first in front.

    Those that the judge found by experiment; of an older document those that its findings tell.
    """
    if verdict.decision is not Decision.REJECTED:
        return ()
    return verdict.diagnoses or diagnose(_named(verdict))


def explained(verdict: Verdict) -> tuple[tuple[Finding, Diagnosis | None], ...]:
    """Return the lead finding of each diagnosis with it, and every finding that none explains.

    What a sink with one entry a problem shows: a cause with many symptoms is one entry.
    """
    causes = diagnosed(verdict)
    of = {name: made for made in reversed(causes) for name in made.findings}
    shown: set[int] = set()
    found: list[tuple[Finding, Diagnosis | None]] = []
    for finding in identified(verdict):
        made = of.get(finding.id)
        if made is None:
            found.append((finding, None))
        elif id(made) not in shown:
            shown.add(id(made))
            found.append((finding, made))
    return tuple(found)


def cause_line(made: Diagnosis) -> str:
    """Return a cause in one sentence, with its line: what a headline says."""
    where = f" ({source_place(made.line)})" if made.line is not None else ""
    return one_line(made.words).rstrip(".") + where


def precision_line(grade: str) -> str:
    """Return the lowest precision that explains a kernel's errors, in words."""
    return _NO_GRADE if grade == "none" else one_line(grade)


def source_place(line: SourceLine) -> str:
    """Return a line as `kernel.py:12`."""
    return f"{one_line(line.file, limit=120)}:{line.line}"


def source_text(line: SourceLine) -> str:
    """Return a line as `kernel.py:12  acc += h * h  (what it does)`."""
    text = f"  {one_line(line.text, limit=160)}" if line.text else ""
    what = f"  ({one_line(line.what, limit=240)})" if line.what else ""
    return f"{source_place(line)}{text}{what}"


def _named(verdict: Verdict) -> tuple[Finding, ...]:
    named: list[Finding] = []
    for position, finding in enumerate(verdict.findings, start=1):
        name = finding.id or f"F{position}"
        command = finding.reproduce or (
            f"cuassay replay {verdict.run}/{name}" if verdict.run else ""
        )
        named.append(replace(finding, id=name, reproduce=command))
    return tuple(named)


def grouped(findings: tuple[Finding, ...]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings that tell the story, one or two a code, and the rest.

    Of each code the worst one with a smallest input leads; one that shows growth follows.
    """
    telling: list[Finding] = []
    serious = [f for f in findings if f.finding_class is not FindingClass.ADVICE]
    for code in dict.fromkeys(finding.code for finding in serious):  # in the order given
        group = [finding for finding in serious if finding.code == code]
        lead = next((finding for finding in group if finding.counterexample), group[0])
        growing = next((finding for finding in group if finding.growth is not None), lead)
        telling.append(lead)
        if lead.growth is None and growing is not lead:
            telling.append(growing)
    return tuple(telling), tuple(finding for finding in findings if finding not in telling)


def sizes(axes: Mapping[str, int]) -> str:
    """Return axis sizes as `tokens=258, hidden=16`."""
    return one_line(", ".join(f"{name}={size}" for name, size in axes.items()))


def place(finding: Finding) -> str:
    """Return where a finding shows: output, group and worst index."""
    where = finding.where
    parts = [one_line(where.output, limit=80), one_line(where.group, limit=120)]
    if where.index:
        parts.append(f"at [{', '.join(str(i) for i in where.index)}]")
    return ", ".join(part for part in parts if part)


def values(finding: Finding) -> str:
    """Return the worst element as `got 256.0, expected 258.0`, or an empty string."""
    where = finding.where
    if not where.got and not where.expected:
        return ""
    got, expected = told_apart(where.got, where.expected)
    return f"got {one_line(got, limit=60)}, expected {one_line(expected, limit=60)}"


def growth_line(growth: Growth) -> str:
    """Return error growth in a sentence: law, trusted law, and the projection."""
    axis = one_line(growth.axis, limit=60)
    last = max(growth.points, key=lambda point: point.length, default=None)
    now = f", {percent(last.error)} at {count(last.length)}" if last else ""
    return (
        f"error ~ {axis}^{growth.exponent:.2f} (trusted {growth.trusted_exponent:.2f}){now}, "
        f"projected {percent(growth.projected)} at {count(growth.target)}"
    )


def percent(fraction: float) -> str:
    """Return a relative error as percent."""
    return f"{number(fraction * 100)} %" if math.isfinite(fraction) else number(fraction)


def rule_sides(verdict: Verdict) -> Sides:
    """Return what the benchmark's own rule says beside what we say."""
    rule = verdict.benchmark_rule
    ours = verdict.decision.value
    theirs = "NOT EVALUATED"
    if rule is not None and rule.accepted is not None:
        theirs = "ACCEPTED" if rule.accepted else "REJECTED"
    # The measure behind our verdict: the worst finding's, or the tightest check's.
    wrong = [f for f in identified(verdict) if f.finding_class is FindingClass.WRONG]
    if wrong:
        first = wrong[0]
        more = f"; {len(wrong) - 1} more wrong" if len(wrong) > 1 else ""
        measured = times(first.share) or one_line(first.title, limit=120)
        ours_why = ", ".join(part for part in (first.code, measured, place(first)) if part) + more
    else:
        shares = [(s, c.code) for c in verdict.checks if (s := outcome_share(c)) is not None]
        if shares and verdict.decision is Decision.ACCEPTED:
            share, code = max(shares)
            ours_why = f"the tightest check, {code}, used {times(share)}"
        else:
            ours_why = one_line(verdict.reason)
    if rule is None:
        rule_why = "the problem states no rule of its own, or it was not reached"
    else:
        parts = []
        if rule.matched_ratio is not None:
            parts.append(
                f"{_matched(rule.matched_ratio)} of elements within atol {number(rule.atol)}, "
                f"rtol {number(rule.rtol)}; {_matched(rule.required_ratio)} needed"
            )
        if rule.workload:
            parts.append(f"workload: {one_line(rule.workload, limit=80)}")
        if rule.worst_output:
            parts.append(f"worst output: {one_line(rule.worst_output, limit=80)}")
        if rule.note:
            parts.append(one_line(rule.note))
        rule_why = "; ".join(parts)
    return Sides(
        theirs=theirs,
        theirs_why=rule_why,
        ours=ours,
        ours_why=ours_why,
        differ=theirs not in ("NOT EVALUATED", ours),
    )


def _matched(ratio: float) -> str:
    """Return a ratio as percent, rounded down so that a miss never reads 100 %."""
    return f"{math.floor(ratio * 1e6) / 1e4:g} %" if math.isfinite(ratio) else number(ratio)


def proof_lines(verdict: Verdict) -> tuple[str, ...]:
    """Return what was asked to be proved: property, answer, and the scope or the reason."""
    found = []
    for one in verdict.proved:
        why = "; ".join(one.scope) if one.answer is ProofAnswer.PROVED else one.reason
        found.append(one_line(f"{one.what.value}: {one.answer.value}: {why}", limit=300))
    return tuple(found)


def power_line(power: Power | None) -> str:
    """Return what the inputs could have seen, in one line."""
    if power is None:
        return "not measured: nothing is known about what these inputs could have missed"
    text = f"{power.killed} of {power.mutants} broken versions of the reference told apart"
    if power.benchmark_killed is not None:
        text += f" (the benchmark's inputs and rule: {power.benchmark_killed})"
    return text


def speed_line(speed: Speed | None) -> str:
    """Return what a call takes and what that is worth, in one line; empty if not measured."""
    if speed is None:
        return ""
    microseconds = (
        f"{speed.candidate_us / 1e3:.3g} ms"
        if speed.candidate_us >= 1e3
        else f"{speed.candidate_us:.3g} us"
    )
    text = f"{microseconds} a call"
    for name, other in (("torch.compile", speed.compiled_us), ("eager torch", speed.eager_us)):
        if other is not None:
            value = other / speed.candidate_us
            ratio = f"{value:.2f}x faster" if value >= 1.0 else f"{1.0 / value:.2f}x slower"
            text += f"; {ratio} than {name}"
    if speed.floor_us is not None:
        text += f"; {speed.floor_us / speed.candidate_us:.0%} of the memory's speed"
    sizes = ", ".join(f"{one_line(name)} = {size}" for name, size in speed.axes.items())
    return f"{text} ({sizes})"


# Failure classes that no check of this version looks for: said under every verdict.
NO_CHECK_YET = "not supported yet: collectives over several GPUs"


def not_checked(verdict: Verdict) -> tuple[str, ...]:
    """Return what the verdict does not rest on.

    Checks that gave no answer, survivors of the power test, a lesser truth, and the failure
    classes that no check covers.
    """
    lines = [
        f"{check.code} {one_line(check.title, limit=80)}: {outcome_word(check)}, "
        f"{outcome_reason(check) or 'no reason given'}"
        for check in verdict.checks
        if outcome_word(check) in ("inconclusive", "skipped", "errored") and applies(check)
    ]
    waiting = [one_line(check.code) for check in verdict.checks if _needs_gpu(check)]
    if waiting:
        lines.append(f"only on an NVIDIA GPU: {', '.join(waiting)} (`cuassay explain CODE`)")
    if verdict.truth != "float64":
        lines.append(
            f"precision beyond {verdict.truth}: truth is {verdict.truth} "
            f"({one_line(verdict.truth_reason)})"
        )
    survivors = verdict.power.survivors if verdict.power else ()
    lines += [
        f"these inputs cannot see this fault: {one_line(name, limit=260)}" for name in survivors
    ]
    if verdict.power is None:
        lines.append("power: no broken versions of the reference were tried on these inputs")
    return (*lines, NO_CHECK_YET)


def walls_line(verdict: Verdict) -> str:
    """Return which walls around the kernel's process stood, in one line."""
    fallen = [name for name, outcome in verdict.walls.items() if outcome != STANDS]
    if not fallen:
        return f"all {len(verdict.walls)} walls stood"
    return f"{len(verdict.walls) - len(fallen)} walls stood, not: {', '.join(fallen)}"


def timing_line(verdict: Verdict) -> str:
    """Return the wall time with its split."""
    timing = verdict.timing
    parts = (
        ("build", timing.build_s),
        ("truth", timing.truth_s),
        ("candidate", timing.candidate_s),
        ("compare", timing.compare_s),
    )
    split = ", ".join(f"{name} {seconds(value)}" for name, value in parts)
    return f"{seconds(timing.total_s)} ({split})"


def coverage_line(axis: AxisCoverage) -> str:
    """Return the sizes tried of one axis, shortened: `rows: 1, 2, 3 ... 4096 (17 values)`."""
    name = one_line(axis.axis, limit=60)
    if not axis.values:
        return f"{name}: no size was tried"
    told = [str(value) for value in axis.values]
    if len(told) <= _TOLD:
        return f"{name}: {', '.join(told)}"
    return f"{name}: {', '.join(told[: _TOLD - 1])} ... {told[-1]} ({len(told)} values)"


def scope_told(verdict: Verdict) -> tuple[str, ...]:
    """Return how far the trial looked, in at most four lines; none for a verdict without it."""
    if verdict.scope == Scope():
        return ()
    power = verdict.power
    told = f"{power.killed} of {power.mutants}" if power is not None else ""
    return tuple(one_line(line) for line in scope_lines(verdict.scope, power=told))


def next_step(verdict: Verdict) -> str:
    """Return what a reader most likely wants to do next; empty where nothing is left."""
    findings = identified(verdict)
    if findings and findings[0].finding_class is not FindingClass.ADVICE:
        return f"cuassay explain {one_line(findings[0].code, limit=20)}"
    if verdict.decision is Decision.INCONCLUSIVE:
        return "cuassay doctor"
    deeper = {Profile.QUICK: "standard", Profile.STANDARD: "deep"}.get(verdict.profile)
    return f"the same command with --profile {deeper} tries more inputs" if deeper else ""


def block(text: str, *, lines: int) -> tuple[str, ...]:
    """Return the first `lines` lines of a cleaned text, with a note where more was cut."""
    rows = clean(text).strip("\n").splitlines()
    every = [row if len(row) <= _ROW else row[: _ROW - 1] + "…" for row in rows]
    if len(every) <= lines:
        return tuple(every)
    return (*every[: lines - 1], f"... {len(every) - lines + 1} more lines in the run folder")

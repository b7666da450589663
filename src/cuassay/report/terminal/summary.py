"""The last block of a terminal report: the verdict, its causes, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from cuassay.model.diagnosis import Cause
from cuassay.model.scope import told_by_scope
from cuassay.model.verdict import Decision, Verdict
from cuassay.report import words
from cuassay.report.clean import one_line
from cuassay.report.terminal.cards import diagnosis_card
from cuassay.report.terminal.layout import STYLES, Marks, command, labelled

_LEFT_OUT_LINES = 8
_SHOWN = 5
_NOTES = 5
_AXES = 10
_PRECISION = (Cause.LOW_ACCUMULATION, Cause.LOW_PRECISION)


def summary(
    verdict: Verdict,
    *,
    width: int,
    signs: Marks,
    runs: str,
    replayed: bool = False,
    verbose: bool = False,
) -> list[Text]:
    """Return the verdict, its causes, conditions, what was not decided, and what to do next.

    With `verbose` all that the verdict rests on as well.
    """
    word = verdict.decision.value
    lines = [
        Text(signs.rule * min(width, 100), style="dim"),
        Text.assemble((word, STYLES[word]), "  ", one_line(verdict.candidate, limit=200)),
    ]
    causes = words.diagnosed(verdict)
    found = words.identified(verdict)
    if not causes:
        lines += _why(verdict, width=width, replayed=replayed)
    for number, made in enumerate(causes, start=1):
        lines += [Text("")] if number > 1 else []
        lines += diagnosis_card(made, found, width=width, signs=signs, number=number)
    lines += [Text("")] if causes else []
    for number, condition in enumerate(_conditions(verdict, brief=not (replayed or verbose))):
        label = "" if number else "conditions"
        lines += labelled(label, f"{signs.dot} {condition}", width=width, style="yellow")
    proofs = [f"{signs.dot} {text}" for text in words.proof_lines(verdict)]
    lines += _listed("proofs", proofs, width=width)
    if not replayed:
        lines += _sides(verdict, width=width, verbose=verbose)
        lines += labelled("checks", words.counts_line(verdict), width=width)
        if verbose or verdict.decision is not Decision.REJECTED:
            every = words.not_checked(verdict) if verbose else words.undecided(verdict)
            most = _LEFT_OUT_LINES if verbose else _SHOWN
            head = "not checked" if verbose else "not decided"
            told = list(every[:most])
            if len(every) > most:
                told.append(f"and {len(every) - most} more, all in the report")
            lines += _listed(head, [f"{signs.dot} {text}" for text in told], width=width)
            lines += labelled("power", words.power_line(verdict.power), width=width)
        if verdict.speed is not None:
            lines += labelled("speed", words.speed_line(verdict.speed), width=width)
        lines += _listed("tried", _tried(verdict) if verbose else [], width=width)
    notes = verdict.notes if verbose else verdict.notes[:_NOTES]
    lines += _listed("assumed", map(one_line, notes), width=width)
    if verbose or verdict.truth != "float64":
        truth = f"{one_line(verdict.truth)}: {one_line(verdict.truth_reason) or 'no reason given'}"
        lines += labelled("truth", truth, width=width)
    matters = bool(causes) and causes[0].cause in _PRECISION
    if verdict.precision_grade and (verbose or matters):
        lines += labelled("precision", words.precision_line(verdict.precision_grade), width=width)
    if verdict.walls and verbose:
        lines += labelled("sandbox", words.walls_line(verdict), width=width)
    took = words.timing_line(verdict) if verbose else words.seconds(verdict.timing.total_s)
    lines += labelled("time", took, width=width)
    if not replayed:  # shown now: while the kernel ran, nothing that it could read held it
        lines += labelled("seed", str(verdict.seed), width=width)
    run = one_line(verdict.run)
    if run:
        shown = f"{runs}/{run}" if runs and verbose else f"cuassay report {run}"
        lines += command("run" if verbose else "report", shown)
    step = words.next_step(verdict)
    return lines + command("next", step) if step else lines


def quiet_line(verdict: Verdict) -> Text:
    """Return the verdict in one line."""
    word = verdict.decision.value
    telling = [finding for finding, _ in words.explained(verdict)]
    command_ = telling[0].reproduce if telling else ""
    tail = f"; {one_line(command_, limit=120)}" if command_ else ""
    causes = words.diagnosed(verdict)
    why = words.cause_line(causes[0]) if causes else one_line(verdict.reason)
    return Text.assemble(
        (word, STYLES[word]),
        f" {one_line(verdict.candidate, limit=120)}: {why.rstrip('.')}{tail}",
    )


def _conditions(verdict: Verdict, *, brief: bool) -> list[str]:
    """Return the conditions; with `brief` those in one line whose words the scope has too.

    How far a trial looked is what an acceptance depends on: a brief rejection leaves it out.
    """
    if not brief:
        return [one_line(condition) for condition in verdict.conditions]
    keys, rest = told_by_scope(verdict.conditions, verdict.scope)
    if verdict.decision is Decision.REJECTED:
        return [one_line(condition) for condition in rest]
    short = [f"{', '.join(keys)}: as far as the scope says, no farther"] if keys else []
    return [*map(one_line, rest), *short]


def _why(verdict: Verdict, *, width: int, replayed: bool) -> list[Text]:
    """Return the reason; of an acceptance where it holds, and how far the trial looked."""
    if verdict.decision is not Decision.ACCEPTED or replayed:
        return labelled("why", one_line(verdict.reason), width=width)
    on = f"{verdict.profile.value} on {one_line(verdict.device, limit=60)}"
    lines = labelled("judged", f"{on}: {one_line(verdict.reason)}", width=width)
    return lines + _listed("scope", words.scope_told(verdict), width=width)


def _sides(verdict: Verdict, *, width: int, verbose: bool) -> list[Text]:
    """Return what the problem's own rule says where it differs, and how far the trial looked.

    An acceptance leads with its scope.
    """
    lines: list[Text] = []
    sides = words.rule_sides(verdict)
    if verdict.benchmark_rule is not None and (sides.differ or verbose):
        text = f"the problem's own tolerance gives {sides.theirs}: {sides.theirs_why}"
        lines += labelled("own rule", text, width=width)
    rejected = verdict.decision is Decision.REJECTED
    if verdict.decision is Decision.INCONCLUSIVE or (rejected and verbose):
        lines += _listed("scope", words.scope_told(verdict), width=width)
    return lines


def _tried(verdict: Verdict) -> list[str]:
    """Return a text an axis: which of its sizes the checks tried."""
    told = [words.coverage_line(axis) for axis in verdict.coverage]
    if len(told) > _AXES:
        told = [*told[: _AXES - 1], f"and {len(told) - _AXES + 1} more axes, all in the JSON"]
    return told


def _listed(label: str, texts: Iterable[str], *, width: int) -> list[Text]:
    """Return texts below one another, the label before the first."""
    lines: list[Text] = []
    for number, text in enumerate(texts):
        lines += labelled("" if number else label, text, width=width)
    return lines

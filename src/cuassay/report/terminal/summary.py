"""The last block of a terminal report: the verdict and everything that it rests on."""

from __future__ import annotations

from rich.text import Text

from cuassay.model.verdict import Verdict
from cuassay.report import words
from cuassay.report.clean import one_line
from cuassay.report.terminal.layout import STYLES, Marks, command, labelled

_LEFT_OUT_LINES = 8
_NOTES = 5
_AXES = 10


def summary(
    verdict: Verdict, *, width: int, signs: Marks, runs: str, replayed: bool = False
) -> list[Text]:
    """Return the verdict, why, conditions, rule, power, sizes tried, what was not checked, next."""
    word = verdict.decision.value
    lines = [
        Text(signs.rule * min(width, 100), style="dim"),
        Text.assemble((word, STYLES[word]), "  ", one_line(verdict.candidate, limit=200)),
    ]
    lines += labelled("why", one_line(verdict.reason), width=width)
    for number, condition in enumerate(verdict.conditions):
        label = "" if number else "conditions"
        lines += labelled(label, f"{signs.dot} {one_line(condition)}", width=width, style="yellow")
    if not replayed:
        lines += _sides(verdict, width=width)
        lines += labelled("power", words.power_line(verdict.power), width=width)
        if verdict.speed is not None:
            lines += labelled("speed", words.speed_line(verdict.speed), width=width)
        lines += _tried(verdict, width=width)
        lines += _left_out(verdict, width=width, signs=signs)
    for number, note in enumerate(verdict.notes[:_NOTES]):
        lines += labelled("" if number else "assumed", one_line(note), width=width, lines=2)
    truth = f"{one_line(verdict.truth)}: {one_line(verdict.truth_reason) or 'no reason given'}"
    lines += labelled("truth", truth, width=width)
    if verdict.precision_grade:
        lines += labelled("precision", one_line(verdict.precision_grade), width=width)
    if verdict.walls:
        lines += labelled("sandbox", words.walls_line(verdict), width=width)
    lines += labelled("time", words.timing_line(verdict), width=width)
    if not replayed:  # shown now: while the kernel ran, nothing that it could read held it
        lines += labelled("seed", str(verdict.seed), width=width)
    run = one_line(verdict.run)
    if run:
        lines += command("run", f"{runs}/{run}" if runs else run)
    step = words.next_step(verdict)
    return lines + command("next", step) if step else lines


def quiet_line(verdict: Verdict) -> Text:
    """Return the verdict in one line."""
    word = verdict.decision.value
    telling, _ = words.grouped(words.identified(verdict))
    command_ = telling[0].reproduce if telling else ""
    tail = f"; {one_line(command_, limit=120)}" if command_ else ""
    return Text.assemble(
        (word, STYLES[word]),
        f" {one_line(verdict.candidate, limit=120)}: {one_line(verdict.reason).rstrip('.')}{tail}",
    )


def _sides(verdict: Verdict, *, width: int) -> list[Text]:
    sides = words.rule_sides(verdict)
    theirs = labelled("their rule", f"{sides.theirs}: {sides.theirs_why}", width=width)
    style = STYLES.get(sides.ours, "")
    differ = " (the benchmark's rule says otherwise)" if sides.differ else ""
    return theirs + labelled("ours", f"{sides.ours}{differ}", width=width, style=style)


def _tried(verdict: Verdict, *, width: int) -> list[Text]:
    """Return a line an axis: which of its sizes the checks tried."""
    told = [words.coverage_line(axis) for axis in verdict.coverage]
    if len(told) > _AXES:
        told = [*told[: _AXES - 1], f"and {len(told) - _AXES + 1} more axes, all in the JSON"]
    lines: list[Text] = []
    for number, text in enumerate(told):
        lines += labelled("" if number else "tried", text, width=width, lines=2)
    return lines


def _left_out(verdict: Verdict, *, width: int, signs: Marks) -> list[Text]:
    every = words.not_checked(verdict)
    if not every:
        return labelled("not checked", "nothing that this profile plans", width=width)
    lines: list[Text] = []
    for number, text in enumerate(every[:_LEFT_OUT_LINES]):
        label = "" if number else "not checked"
        lines += labelled(label, f"{signs.dot} {text}", width=width, lines=3)
    if len(every) > _LEFT_OUT_LINES:
        more = f"{signs.dot} and {len(every) - _LEFT_OUT_LINES} more, all in the JSON and HTML"
        lines += labelled("", more, width=width)
    return lines

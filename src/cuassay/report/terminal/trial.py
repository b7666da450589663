"""A trial as it happens, for a person: plan, a line a check, findings, verdict.

The result goes to one console (stdout), what is going on at the moment to another (stderr).
No text is ever parsed as Rich markup; every string is cleaned first.
"""

from __future__ import annotations

import errno
import io
import os
import time

from rich.console import Console
from rich.status import Status
from rich.text import Text

from cuassay.model.events import (
    CaseFinished,
    CheckFinished,
    CheckStarted,
    DecisionReached,
    EngineFinished,
    EngineStarted,
    Event,
    Progress,
)
from cuassay.model.outcome import CheckReport, Finding, Skipped
from cuassay.model.verdict import Verdict
from cuassay.report import words
from cuassay.report.clean import one_line
from cuassay.report.terminal.cards import brief, card
from cuassay.report.terminal.layout import STYLES, marks, wrapped
from cuassay.report.terminal.summary import quiet_line, summary

_MAXIMUM_WIDTH = 100
_CARDS = 6
_TOLD = ("inconclusive", "errored")  # what is said at once; a failure is said with its cause
_ENOUGH = 6  # checks after which their time says something of the rest


class _Console(Console):
    """A console that lets a closed stdout be seen: Rich would exit with 1, our REJECTED."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console(*, stderr: bool = False, no_color: bool = False) -> Console:
    """Return a console that parses no markup, and is plain off a terminal or with NO_COLOR."""
    plain = no_color or bool(os.environ.get("NO_COLOR"))
    return _Console(
        stderr=stderr,
        no_color=plain or None,
        color_system=None if plain else "auto",
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=True,
    )


class TerminalReport:
    """Consumes events.

    `summarise=False` leaves out the verdict (for `--json`); `replayed=True` leaves out what only a
    whole trial can say: power and what was not checked. With `verbose` every check has a line and
    every finding a card. `runs` is the folder of run folders, for the line that says where the
    run is kept.
    """

    def __init__(
        self,
        console: Console,
        *,
        progress: Console | None = None,
        quiet: bool = False,
        summarise: bool = True,
        replayed: bool = False,
        verbose: bool = False,
        runs: str = "",
    ) -> None:
        self._console, self._progress = console, progress
        self._quiet, self._summarise, self._replayed = quiet, summarise, replayed
        self._runs = runs
        self._signs = marks(console.encoding)
        self._status: Status | None = None
        self._verbose = verbose
        self._current = ""
        self._cases = 0
        self._checks, self._done = 0, 0
        self._began = time.monotonic()

    def consume(self, event: Event) -> None:
        """Show one event. What matters only to machines shows nothing."""
        match event:
            case EngineFinished(verdict=verdict):
                self.close()
                self._finish(verdict)
            case _ if self._quiet:
                return
            case EngineStarted():
                self._plan(event)
            case Progress(text=text):
                self._now(one_line(text, limit=160))
            case CheckStarted(code=code, title=title):
                self._current, self._cases = f"{one_line(code)} {one_line(title, limit=80)}", 0
                self._now(self._place())
            case CaseFinished(label=label):
                self._cases += 1
                self._now(f"{self._place()}: {self._cases} done, {one_line(label, limit=80)}")
            case DecisionReached(decision=decision, reason=reason):
                self._now(f"{decision.value}: {one_line(reason, limit=120)}")
            case CheckFinished(report=report):
                self._done += 1
                if self._verbose or words.outcome_word(report) in _TOLD:
                    self.close()
                    self._print(*self._check_lines(report))

    def close(self) -> None:
        """Take the moving line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    @property
    def _width(self) -> int:
        return min(self._console.width, _MAXIMUM_WIDTH)

    def _print(self, *lines: Text) -> None:
        for line in lines:
            self._console.print(line, soft_wrap=True)

    def _now(self, text: str) -> None:
        """Show what is going on as a moving line; a pipe gets none."""
        if self._progress is None:
            return
        if not self._progress.is_terminal:
            return
        shown = Text(text)
        shown.truncate(max(20, self._progress.width - 4), overflow="ellipsis")
        if self._status is None:
            self._status = self._progress.status(shown)
            self._status.start()
        else:
            self._status.update(shown)

    def _place(self) -> str:
        """Return which check runs, for how long the trial has run, and how long it may take."""
        elapsed_s = time.monotonic() - self._began
        left = ""
        if self._done >= _ENOUGH and self._checks > self._done:
            left = f", about {words.seconds(elapsed_s / self._done * self._checks)} in all"
        number = f"check {self._done + 1} of {self._checks}" if self._checks else "check"
        return f"{number}, {words.seconds(elapsed_s)}{left}: {self._current}"

    def _plan(self, event: EngineStarted) -> None:
        self.close()
        self._checks = len(event.checks)
        dot = f" {self._signs.dot} "
        line = dot.join(
            (
                f"cuassay {one_line(event.problem, limit=80)}",
                one_line(event.candidate, limit=120),
                f"{one_line(event.profile)} on {one_line(event.device)}",
                f"{len(event.checks)} checks",
            )
        )
        self._print(Text(line, style="bold"))

    def _check_lines(self, report: CheckReport) -> list[Text]:
        """Return a check's sign, code, title and time, and below it why it ended so."""
        word = words.outcome_word(report)
        kind = "condition" if word == "failed" and words.only_condition(report) else word
        share = words.times(words.outcome_share(report))
        skipped = isinstance(report.outcome, Skipped)
        took = "" if skipped else f"  {words.seconds(report.duration_s)}"
        head = Text.assemble(
            "  ",
            (f"{getattr(self._signs, kind)} {one_line(report.code, limit=12):<9}", STYLES[kind]),
            f" {one_line(report.title, limit=160)}",
            (took, "dim"),
        )
        reason = words.outcome_reason(report)
        if word == "skipped" and not words.applies(report):
            reason = f"does not apply: {reason}"
        note = "; ".join(t for t in (share, reason) if t) if word == "passed" else reason
        if not note:
            return [head]
        if len(head) + len(note) + 2 <= self._width:
            return [head.append(f"  {note}", style="dim")]
        rows = wrapped(note, width=self._width - 14)
        return [head, *(Text(" " * 14 + row, style="dim") for row in rows)]

    def _finish(self, verdict: Verdict) -> None:
        if not self._summarise:
            return
        if self._quiet:
            self._print(quiet_line(verdict))
            return
        if self._verbose:
            self._findings(words.identified(verdict))
        lines = summary(
            verdict,
            width=self._width,
            signs=self._signs,
            runs=self._runs,
            replayed=self._replayed,
            verbose=self._verbose,
        )
        self._print(Text(""), *lines)

    def _findings(self, findings: tuple[Finding, ...]) -> None:
        """Show the telling findings as cards; repeats of a code and advice as one line each."""
        telling, others = words.grouped(findings)
        rest = (*telling[_CARDS:], *others)
        for finding in telling[:_CARDS]:
            self._print(Text(""), *card(finding, width=self._width, signs=self._signs))
        if rest:
            self._print(Text(""))
        self._print(*(brief(f, signs=self._signs) for f in rest[:20]))
        if len(rest) > 20:
            self._print(Text(f"and {len(rest) - 20} more, all in the JSON and HTML reports"))


def story(verdict: Verdict, *, width: int = 100) -> str:
    """Return findings and verdict as plain text: what an AssertionError says."""
    target = io.StringIO()
    plain = Console(
        file=target, width=width, color_system=None, markup=False, highlight=False, emoji=False
    )
    report = TerminalReport(plain)
    report.consume(EngineFinished(verdict=verdict))
    return target.getvalue().rstrip()

"""A trial as it happens, for a person: plan, a line a check, findings, verdict.

The result goes to one console (stdout), what is going on at the moment to another (stderr).
No text is ever parsed as Rich markup; every string is cleaned first.
"""

from __future__ import annotations

import errno
import io
import os
from dataclasses import dataclass

from rich.console import Console
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
from cuassay.model.outcome import CheckReport, Skipped
from cuassay.model.verdict import Verdict
from cuassay.report import words
from cuassay.report.clean import one_line
from cuassay.report.terminal.cards import brief, card
from cuassay.report.terminal.layout import STYLES, marks, wrapped
from cuassay.report.terminal.summary import quiet_line, summary
from cuassay.report.terminal.waiting import EACH_S, Waiting

_MAXIMUM_WIDTH = 100
_CARDS = 6
_TOLD = ("inconclusive", "errored")  # what is said at once; a failure is said with its cause
_SILENT_S = 10.0  # without an event, after which the line says what may take so long
_ENOUGH = 6  # checks after which their time says something of the rest
# What trials of kernels take on two cores without a GPU, where none of the problem was kept.
_USUAL = {"quick": "10 to 60 s", "standard": "1 to 5 min"}  # deep was not measured


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


@dataclass(slots=True)
class _Estimate:
    """How long a trial takes: the whole in words, and after how long its first check began."""

    whole: str = ""
    first_check_s: float | None = None


class TerminalReport:
    """Consumes events.

    `summarise=False` leaves out the verdict (for `--json`); `replayed=True` leaves out what only a
    whole trial can say: power and what was not checked. With `verbose` every check has a line and
    every finding a card. `runs` is the folder of run folders, for the line that says where the
    run is kept. Where `progress` is no terminal it gets a line every `each_s` seconds.
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
        each_s: float = EACH_S,
    ) -> None:
        self._console, self._progress = console, progress
        self._quiet, self._summarise, self._replayed = quiet, summarise, replayed
        self._runs = runs
        self._signs = marks(console.encoding)
        self._waiting = Waiting(None if quiet else progress, each_s=each_s)
        self._verbose = verbose
        self._current, self._last = "", ""
        self._cases = 0
        self._checks, self._done = 0, 0
        self._estimate = _Estimate()

    def begin(self, *, profile: str = "", last_s: float | None = None) -> None:
        """Say that a trial is about to begin: what comes before its first event takes seconds.

        `last_s` is how long the last trial of this problem took; without it the time that trials
        of the profile usually take is the estimate.
        """
        usual = _USUAL.get(profile, "")
        if last_s is not None:
            usual = f"about {words.seconds(last_s) if last_s >= 120 else f'{last_s:.0f} s'}"
        self._estimate.whole = usual
        start = "starts the judge, loads torch and the problem"
        self._waiting.say(lambda _: f"{self._elapsed()}: {start}")

    def consume(self, event: Event) -> None:
        """Show one event. What matters only to machines shows nothing."""
        match event:
            case EngineFinished(verdict=verdict):
                self.close()
                self._finish(verdict)
            case _ if self._quiet:
                return
            case EngineStarted():
                self._waiting.hide()
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
            case Progress(text=text):
                self._waiting.say(f"{self._count()}{text}")
            case CheckStarted(code=code, title=title):
                if self._estimate.first_check_s is None:
                    self._estimate.first_check_s = self._waiting.elapsed_s
                self._current, self._cases = f"{one_line(code)} {one_line(title, limit=80)}", 0
                self._last = ""
                self._waiting.say(self._place)
            case CaseFinished(label=label):
                self._cases += 1
                self._last = one_line(label, limit=80)
                self._waiting.say(self._place)
            case DecisionReached(decision=decision, reason=reason):
                self._waiting.say(
                    f"{decision.value}: {one_line(reason, limit=120)}; looks for the cause and the "
                    "smallest input"
                )
            case CheckFinished(report=report):
                self._done += 1
                if self._verbose or words.outcome_word(report) in _TOLD:
                    self._waiting.hide()
                    self._print(*self._check_lines(report))

    def close(self) -> None:
        """Take the moving line away for good."""
        self._waiting.close()

    @property
    def _width(self) -> int:
        return min(self._console.width, _MAXIMUM_WIDTH)

    def _print(self, *lines: Text) -> None:
        for line in lines:
            self._console.print(line, soft_wrap=True)

    def _elapsed(self) -> str:
        """Return for how long the trial has run, and of how long where that is known."""
        elapsed = words.seconds(self._waiting.elapsed_s)
        return f"{elapsed} of {self._estimate.whole}" if self._estimate.whole else elapsed

    def _count(self) -> str:
        """Return which check runs, for how long the trial has run, and how long it may take."""
        elapsed_s = self._waiting.elapsed_s
        if 0 < self._checks <= self._done:
            return f"{self._checks} checks done, {words.seconds(elapsed_s)}: "
        left = ""
        if self._done >= _ENOUGH and self._checks:
            # To start takes seconds that no further check takes.
            start_s = self._estimate.first_check_s or 0.0
            whole_s = start_s + (elapsed_s - start_s) / self._done * self._checks
            left = f", about {words.seconds(whole_s)} in all"
        number = f"check {self._done + 1} of {self._checks}" if self._checks else "check"
        return f"{number}, {words.seconds(elapsed_s) if left else self._elapsed()}{left}: "

    def _place(self, silent_s: float) -> str:
        """Return what runs now, and from some seconds of silence on what that may mean."""
        done = f": {self._cases} done, {self._last}" if self._cases else ""
        if silent_s < _SILENT_S:
            return f"{self._count()}{self._current}{done}"
        why = "a build, a compilation, or a call that does not return"
        return f"{self._count()}{self._current}: nothing ended for {silent_s:.0f} s ({why}){done}"

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
            # Show the telling findings as cards; repeats of a code and advice as one line each.
            telling, others = words.grouped(words.identified(verdict))
            rest = (*telling[_CARDS:], *others)
            for finding in telling[:_CARDS]:
                self._print(Text(""), *card(finding, width=self._width, signs=self._signs))
            if rest:
                self._print(Text(""))
            self._print(*(brief(f, signs=self._signs) for f in rest[:20]))
            if len(rest) > 20:
                self._print(Text(f"and {len(rest) - 20} more, all in the JSON and HTML reports"))
        lines = summary(
            verdict,
            width=self._width,
            signs=self._signs,
            runs=self._runs,
            replayed=self._replayed,
            verbose=self._verbose,
        )
        self._print(Text(""), *lines)


def story(verdict: Verdict, *, width: int = 100) -> str:
    """Return findings and verdict as plain text: what an AssertionError says."""
    target = io.StringIO()
    plain = Console(
        file=target, width=width, color_system=None, markup=False, highlight=False, emoji=False
    )
    report = TerminalReport(plain)
    report.consume(EngineFinished(verdict=verdict))
    return target.getvalue().rstrip()

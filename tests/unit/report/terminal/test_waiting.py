"""What a command is at: a moving line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import dataclasses
import io
import threading

import pytest
from rich.console import Console

from cuassay.model.events import CaseFinished, CheckFinished, CheckStarted, EngineStarted
from cuassay.report.terminal.trial import TerminalReport
from cuassay.report.terminal.waiting import Waiting
from tests.support import samples


def _console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    target = io.StringIO()
    return Console(file=target, force_terminal=terminal, width=80, color_system=None), target


def test_a_terminal_gets_a_line_that_goes_away() -> None:
    console, target = _console(terminal=True)
    said = threading.Event()

    def words(seconds: float) -> str:
        said.set()
        return "compiles"

    with Waiting(console, after_s=0.0) as waiting:
        waiting.say(words)
        assert said.wait(300)
        waiting.say("runs")
    assert "runs" in target.getvalue() or "compiles" in target.getvalue()
    assert target.getvalue().rstrip(" ").endswith(("\x1b[2K", "\x1b[?25h"))


def test_what_is_no_terminal_gets_plain_lines() -> None:
    console, target = _console(terminal=False)
    twice = threading.Event()
    calls: list[float] = []

    def words(seconds: float) -> str:
        calls.append(seconds)
        if len(calls) > 1:
            twice.set()
        return "compiles"

    with Waiting(console, each_s=0.01) as waiting:
        waiting.say(words)
        assert twice.wait(300)
    assert target.getvalue().startswith("cuassay: compiles\n")
    assert "\x1b" not in target.getvalue()


def test_nothing_is_said_before_the_time_or_without_a_console() -> None:
    console, target = _console(terminal=True)
    with Waiting(console, after_s=1e6) as waiting:
        waiting.say("one")
        waiting.say("two")
    with Waiting(None) as waiting:
        waiting.say("three")
    assert target.getvalue() == ""


def test_a_silent_check_says_what_may_take_so_long() -> None:
    report = TerminalReport(Console(file=io.StringIO()), progress=None)
    verdict = samples.accepted()
    report.consume(
        EngineStarted(
            run="r", problem="rmsnorm", candidate="k", profile="quick", device="cpu", digest="d",
            checks=tuple(check.code for check in verdict.checks), seed=1,
        )
    )  # fmt: skip
    report.consume(CheckStarted(code="NUM001", title="Values are right"))
    assert "check 1 of " in report._place(0.0)
    assert "NUM001 Values are right" in report._place(0.0)
    report.consume(CaseFinished(code="NUM001", label="small A", duration_s=1.0))
    told = report._place(42.0)
    assert "nothing ended for 42 s" in told
    assert "1 done, small A" in told


@pytest.mark.parametrize(
    ("profile", "last_s", "told"),
    [
        ("quick", 16.4, "1.0 s of about 16 s"),
        ("deep", 150.0, "1.0 s of about 2 min 30 s"),
        ("quick", None, "1.0 s of 10 to 60 s"),
        ("", None, "1.0 s"),
    ],
)
def test_an_estimate_stands_from_the_first_second_to_the_first_checks(
    profile: str, last_s: float | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    console, target = _console(terminal=True)
    monkeypatch.setattr(Waiting, "elapsed_s", property(lambda _: 1.0))
    report = TerminalReport(Console(file=io.StringIO()), progress=console)
    report.begin(profile=profile, last_s=last_s)
    report.begin(profile=profile, last_s=last_s)  # the second word is shown at once
    report.close()
    assert f"{told}: starts the judge, loads torch" in target.getvalue()
    report.consume(CheckStarted(code="NUM001", title="Values are right"))
    report.close()
    assert report._count() == f"check, {told}: "


def test_the_time_to_come_leaves_out_the_start_and_ends_with_the_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = TerminalReport(Console(file=io.StringIO()), progress=None)
    verdict = samples.accepted()
    now_s = 13.0
    monkeypatch.setattr(Waiting, "elapsed_s", property(lambda _: now_s))
    codes = tuple(f"C{number}" for number in range(20))
    report.consume(
        EngineStarted(
            run="r", problem="rmsnorm", candidate="k", profile="quick", device="cpu", digest="d",
            checks=codes, seed=1,
        )
    )  # fmt: skip
    for code in codes[:10]:
        report.consume(CheckStarted(code=code, title="A check"))
        report.consume(CheckFinished(report=dataclasses.replace(verdict.checks[0], code=code)))
        now_s += 1.0
    # 13 s to start and 1 s a check: 33 s, not 46.
    assert report._count() == "check 11 of 20, 23.0 s, about 33.0 s in all: "
    for code in codes[10:]:
        report.consume(CheckFinished(report=dataclasses.replace(verdict.checks[0], code=code)))
    assert report._count() == "20 checks done, 23.0 s: "

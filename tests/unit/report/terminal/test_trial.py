"""The terminal report: what a person reads."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from cuassay.model.outcome import CheckReport, Errored, Failed, Finding
from cuassay.model.scope import AxisScope, Scope, scope_conditions
from cuassay.model.verdict import Verdict
from cuassay.report import words
from cuassay.report.terminal.cards import LINES, card
from cuassay.report.terminal.layout import ASCII, Marks, bar, marks
from cuassay.report.terminal.trial import TerminalReport, console, story
from tests.support import samples


def _show(
    verdict: Verdict,
    *,
    terminal: bool = False,
    quiet: bool = False,
    summarise: bool = True,
    replayed: bool = False,
    verbose: bool = False,
) -> str:
    target = io.StringIO()
    shown = Console(
        file=target, width=100, force_terminal=terminal, color_system=None, markup=False
    )
    report = TerminalReport(
        shown, quiet=quiet, summarise=summarise, replayed=replayed, verbose=verbose
    )
    for event in samples.events(verdict):
        report.consume(event)
    return target.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize(
    "finding",
    [
        samples.hot_rows(),
        samples.held_output(),
        samples.empty_batch(),
        dataclasses.replace(samples.hot_rows(), message="word " * 300, statistic="long " * 99),
        dataclasses.replace(samples.empty_batch(), evidence="line\n" * 500),
    ],
)
def test_a_card_has_few_lines_and_the_command(finding: Finding, width: int) -> None:
    lines = [line.plain for line in card(finding, width=width, signs=Marks())]
    assert len(lines) <= LINES
    assert finding.reproduce in lines[-1]


def test_a_compiler_log_shows_from_its_first_error() -> None:
    log = "note: in file\n" * 30 + "kernel.cu(7): error: identifier 'x' is undefined\nend"
    finding = dataclasses.replace(samples.empty_batch(), evidence=log)
    text = "\n".join(line.plain for line in card(finding, width=100, signs=Marks()))
    assert "evidence    kernel.cu(7): error" in text


def test_verdict_findings_and_command_are_there() -> None:
    text = _show(samples.told())
    share = "18.4 times the allowed error"
    for part in ("REJECTED", share, "cuassay replay", "kernel.py:9", "ACCEPTED:"):
        assert part in text
    assert "projected 61 %" not in text
    assert "projected 61 %" in _show(samples.rejected(), verbose=True)
    assert "\x1b" not in text


def test_what_the_scope_says_stands_once() -> None:
    scope = Scope(axes=(AxisScope(axis="rows", declared=4096, values=64),), values=64, wanted=4096)
    conditions = ("layouts: contiguous inputs", *scope_conditions(scope, streams=False))
    verdict = dataclasses.replace(samples.accepted(), scope=scope, conditions=conditions)
    text = _show(verdict)
    assert "layouts: contiguous inputs" in text
    assert "sizes: as far as the scope says, no farther" in text
    assert text.count("rows to 64 of 4,096") == 1
    assert _show(verdict, verbose=True).count("rows to 64 of 4,096") == 2


def test_an_acceptance_begins_with_profile_device_and_scope_within_80_columns() -> None:
    axes = (
        AxisScope(axis="rows", declared=1_048_576, values=16_341),
        AxisScope(axis="hidden", declared=65_536, values=8192),
    )
    scope = Scope(axes=axes, values=522_928, wanted=137_439_019_008)
    verdict = dataclasses.replace(samples.accepted(), scope=scope)
    rows = story(verdict, width=80).splitlines()
    assert all(len(row) <= 80 for row in rows)
    (first,) = (n for n, row in enumerate(rows) if row.startswith("ACCEPTED"))
    labels = [row.split()[0] for row in rows[first + 1 :] if row[2:3].strip()]
    assert labels[:2] == ["judged", "scope"]
    assert rows[first + 1].split()[:4] == ["judged", "standard", "on", "cuda:"]
    assert "rows to 16,341 of 1,048,576, hidden to 8,192 of 65,536" in "\n".join(rows)


def test_quiet_is_one_line() -> None:
    text = _show(samples.told(), quiet=True)
    assert text.count("\n") == 1
    assert text.startswith("REJECTED kernels/bf16_accumulate.py: Hot rows")


def test_without_summary_only_plan_and_checks_show() -> None:
    text = _show(samples.rejected(), summarise=False, verbose=True)
    assert "NUM002" in text
    assert "REJECTED" not in text


def test_a_replay_leaves_out_what_only_a_trial_can_say() -> None:
    text = _show(samples.rejected(), replayed=True)
    assert "own rule" not in text
    assert "not decided" not in text


def test_many_findings_are_grouped() -> None:
    many = tuple(
        dataclasses.replace(samples.hot_rows(), id=f"F{n}", growth=None) for n in range(1, 41)
    )
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=many))
    story = dataclasses.replace(samples.rejected(), checks=(check,), diagnoses=())
    text = _show(story)
    assert text.count("reproduce") == 1
    assert "and 36 more" in text
    assert "and 19 more" in _show(story, verbose=True)


def test_the_smallest_input_leads_and_growth_follows() -> None:
    story = samples.hot_rows()
    plain = dataclasses.replace(story, id="F1", counterexample="", growth=None)
    small = dataclasses.replace(story, id="F2", growth=None, measured=0.02)
    grown = dataclasses.replace(story, id="F3", counterexample="", measured=0.01)
    telling, rest = words.grouped((plain, small, grown, samples.empty_batch()))
    assert [finding.id for finding in telling] == ["F2", "F3"]
    assert [finding.code for finding in rest] == ["NUM002", "SHP001"]


def test_an_errored_check_is_no_failure_of_the_kernel() -> None:
    check = CheckReport(code="NUM002", title="t", outcome=Errored(reason="division by zero"))
    text = _show(dataclasses.replace(samples.inconclusive(), checks=(check,)))
    assert "E NUM002" in text
    assert "division by zero" in text


def test_moving_line_is_taken_away() -> None:
    text = _show(samples.accepted(), terminal=True)
    assert text.rstrip().endswith("--profile deep tries more inputs")


def test_an_encoding_without_signs_gets_ascii() -> None:
    assert marks("utf-8") == Marks()
    assert marks("ascii") is ASCII
    assert bar(3.0, signs=ASCII).plain == ("#" * 24 + ">")
    assert bar(None, signs=ASCII).plain == ""
    assert bar(float("nan"), signs=ASCII).plain.endswith(">")


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert console().color_system is None
    monkeypatch.delenv("NO_COLOR")
    assert console(no_color=True).color_system is None


def test_a_closed_pipe_is_seen() -> None:
    class Closed(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    shown = console()
    shown.file = Closed()
    with pytest.raises(BrokenPipeError):
        shown.print("x")


def test_story_is_plain_text() -> None:
    text = story(samples.rejected())
    assert "REJECTED" in text
    assert "\x1b" not in text

"""An audit in a terminal: what was planned, a line a candidate, the tables at its end."""

from __future__ import annotations

import dataclasses

from cuassay.model.audit import Ending, Oddity, ProblemPower
from cuassay.model.verdict import Decision
from cuassay.report.terminal import audit as shown
from tests.support import audits


def test_a_plan_counts_its_candidates_and_names_the_first_four_of_a_problem() -> None:
    items = [audits.item(30 * number) for number in range(6)] + [audits.item(1)]
    first, heads, *rows = shown.plan_lines(items, left_out=3)
    assert first == "7 candidates of 2 problems, 3 left out by the filters"
    assert heads.split() == ["problem", "family", "format", "candidates"]
    attention, norm = rows
    assert attention.split() == ["attention_1", "attention", "sol-execbench", "k1"]
    assert norm.endswith("k0, k30, k60, k90 and 2 more")
    assert next(shown.plan_lines(items[:1], left_out=0)) == "1 candidates of 1 problems"


def test_what_was_passed_over_is_listed_up_to_a_dozen() -> None:
    assert list(shown.oddity_lines(())) == []
    many = [Oddity(path=f"/x/{number}", message="no kernel") for number in range(15)]
    title, *rows, rest = shown.oddity_lines(many)
    assert title == "Passed over (15)"
    assert (len(rows), rows[0]) == (12, "  /x/0: no kernel")
    assert rest == "  and 3 more (--json has them all)"


def test_a_line_a_candidate_says_how_it_ended_and_what_the_benchmark_says() -> None:
    rejected = audits.result(1, findings=3)
    line = shown.result_line(rejected, 7, 120)
    assert line.startswith("[  7/120] REJECTED     theirs: accepts")
    assert line.endswith("NUM001 STATE001")  # each check once
    assert "attention_1 / k1" in line
    accepted = shown.result_line(audits.result(0), 8, 9)
    assert accepted.startswith("[8/9] ACCEPTED")
    assert "made-up" not in accepted  # a reason is for those that are not accepted
    unread = audits.result(
        2, ending=Ending.UNREADABLE, verdict=None, theirs=None, reason="line 3: not JSON"
    )
    assert "UNREADABLE" in shown.result_line(unread, 1, 1)
    assert "theirs: -" in shown.result_line(unread, 1, 1)
    assert shown.result_line(unread, 1, 1).endswith("line 3: not JSON")


def test_names_of_strangers_stay_on_one_line() -> None:
    hostile = audits.item(0, candidate_name="k\n\x1b[31mred", problem_name="p\r\np")
    line = shown.result_line(audits.result(0, item=hostile), 1, 1)
    assert "\n" not in line
    assert "\x1b" not in line


def test_the_report_counts_what_the_audit_holds() -> None:
    audit = audits.audit(12)
    text = "\n".join(shown.lines(audit))
    decisions = [result.verdict for result in audit.results]
    for word, decision in (
        ("accepted", Decision.ACCEPTED),
        ("rejected", Decision.REJECTED),
        ("inconclusive", Decision.INCONCLUSIVE),
    ):
        assert f"  {word:<14}{decisions.count(decision):>6}" in text
    assert f"  {'unreadable':<14}{1:>6}" in text
    theirs = [result for result in audit.results if result.theirs]
    ours = [result for result in theirs if result.verdict is Decision.REJECTED]
    assert f"own rule accepts {len(theirs)}: {len(ours)} of them" in text
    assert "Why kernels are rejected" in text
    assert "Passed over (1)" in text
    none = dataclasses.replace(
        audit, results=tuple(dataclasses.replace(one, theirs=None) for one in audit.results)
    )
    assert "was evaluated on none" in "\n".join(shown.lines(none))


def test_an_audit_in_one_line() -> None:
    audit = audits.audit(12)
    decisions = [result.verdict for result in audit.results]
    accepted, rejected = (decisions.count(d) for d in (Decision.ACCEPTED, Decision.REJECTED))
    line = shown.short_line(audit)
    other = len(audit.results) - accepted - rejected
    assert line.startswith(
        f"{accepted} accepted, {rejected} rejected, {other} undecided of {len(audit.results)}, "
    )


def test_powers_come_with_the_weakest_problem_first() -> None:
    (half,) = audits.audit(1).powers
    strong = dataclasses.replace(half, problem_name="strong", survivors=(), trivial=())
    unmeasured = ProblemPower(
        problem="p", problem_name="left", family="moe", reason="no rule of its own"
    )
    audit = dataclasses.replace(audits.audit(1), powers=(strong, half, unmeasured))
    found = list(shown.power_lines(audit))
    assert found[0] == "3 problems, 2 of them measured"
    assert found[1].startswith(
        "Their own inputs and rules let through 2 of 40 broken versions (5%)"
    )
    assert found[2] == "1 of them accept an answer that computes nothing."
    names = [line.split()[0] for line in found if line.startswith("  ") and "%" in line]
    assert names == ["norm_0", "strong"]
    assert found[-2:] == ["Not measured (1)", "  left: no rule of its own"]
    assert shown.measured_line(half, 1, 3).startswith(
        "[1/3] norm_0  lets through 2 of 20, 1 of them trivial"
    )
    assert shown.measured_line(unmeasured, 2, 3) == "[2/3] left  not measured: no rule of its own"

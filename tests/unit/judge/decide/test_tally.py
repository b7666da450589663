"""How a check ends by what it saw: nothing that was not decided becomes a pass."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.judge.decide.tally import Tally
from cuassay.model.outcome import (
    Failed,
    Finding,
    FindingClass,
    Inconclusive,
    Passed,
    Severity,
    Skipped,
)
from cuassay.oracle.compare.outputs import Comparison
from cuassay.oracle.truth.outputs import AMBIGUOUS_CAP

_SET_ASIDE = Comparison(output="y", passed=True, share=0.0, undecided="rounding alone")
_JUDGED = Comparison(output="z", passed=True, share=0.1)


def _finding(kind: FindingClass) -> Finding:
    return Finding(
        code="NUM001",
        title="t",
        message="m",
        classes=("N1",),
        finding_class=kind,
        severity=Severity.HIGH,
    )


def test_findings_fail_a_check_but_advice_does_not() -> None:
    tally = Tally(ran=2, clean=2)
    tally.add(_finding(FindingClass.ADVICE))
    assert isinstance(tally.outcome(), Passed)
    unsafe, wrong = _finding(FindingClass.UNSAFE), _finding(FindingClass.WRONG)
    tally.add(unsafe)
    tally.add(wrong)
    assert tally.outcome() == Failed(findings=(wrong, unsafe))


def test_a_candidate_that_completes_too_little_is_not_decided() -> None:
    tally = Tally(ran=10, clean=8, withheld=["it raised"] * 2, least_decided=0.8)
    assert tally.too_little == ""
    assert isinstance(tally.outcome(), Passed)
    less = dataclasses.replace(tally, withheld=["it raised"] * 3)
    ended = less.outcome()
    assert isinstance(ended, Inconclusive)
    assert "3 of 10 scenarios that the reference completes: it raised" in ended.reason


def test_an_output_that_no_case_judges_decides_nothing() -> None:
    tally = Tally(clean=1)
    tally.weigh([_SET_ASIDE], cases=1)
    ended = tally.outcome()
    assert isinstance(ended, Inconclusive)
    assert "set aside in every case: rounding alone" in ended.reason


def test_beside_judged_outputs_one_set_aside_is_said_in_the_summary() -> None:
    tally = Tally(clean=1)
    tally.weigh([_SET_ASIDE, _JUDGED], cases=1)
    ended = tally.outcome()
    assert isinstance(ended, Passed)
    assert "output 'y' was set aside in every case (rounding alone)" in ended.summary
    again = dataclasses.replace(_SET_ASIDE, undecided="")
    tally.weigh([again], cases=1)  # another case judges it
    ended = tally.outcome()
    assert isinstance(ended, Passed)
    assert "output 'y' was set aside in some" in ended.summary


def test_elements_that_flip_decide_nothing_even_beside_others() -> None:
    flips = dataclasses.replace(_SET_ASIDE, ambiguous_share=2 * AMBIGUOUS_CAP)
    tally = Tally(clean=1)
    tally.weigh([flips, _JUDGED], cases=1)
    assert isinstance(tally.outcome(), Inconclusive)


@pytest.mark.parametrize(
    ("tally", "ended"),
    [
        (Tally(inapplicable="no index"), Skipped(reason="no index", applicable=False)),
        (Tally(inapplicable="no index", undecided=["?"]), Inconclusive(reason="?")),
        (
            Tally(declined=["rows=0"]),
            Skipped(
                reason="the reference takes none of the inputs that were tried: rows=0",
                applicable=False,
            ),
        ),
        (
            Tally(declined=["rows=0"], shared=["it raises"]),
            Inconclusive(reason="the reference fails it too: it raises"),
        ),
        (
            Tally(cut_short=True),
            Skipped(reason="the reference takes longer than a check of this profile may"),
        ),
        (Tally(cut_short=True, ran=1), Inconclusive(reason="no scenario could be judged")),
        (Tally(), Inconclusive(reason="no scenario could be judged")),
        (Tally(clean=1), Passed(summary="1 scenario")),
        (
            Tally(ran=3, clean=2, remark="all of them", cut_short=True, undecided=["?"]),
            Passed(summary="2 scenarios; all of them; no time for the others; "
                   "1 decided nothing (?)"),
        ),
    ],
)  # fmt: skip
def test_what_was_not_judged_is_said_as_it_was(tally: Tally, ended: object) -> None:
    assert tally.outcome() == ended


def test_what_other_scenarios_saw_is_added() -> None:
    first = Tally(ran=1, clean=1, aside={"y": "first"}, judged={"z"})
    other = Tally(ran=2, clean=1, aside={"y": "other"}, undecided=["?"], inapplicable="never")
    first.take(other)
    assert (first.ran, first.clean, first.undecided) == (3, 2, ["?"])
    assert (first.aside, first.judged, first.inapplicable) == ({"y": "first"}, {"z"}, "never")

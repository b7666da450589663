"""Findings become causes: which one leads, what joins it, and in which words."""

from __future__ import annotations

import pytest

from cuassay.diagnosis import PAGES, Clue, Clues, diagnose
from cuassay.model.diagnosis import Basis, Cause, SourceLine
from cuassay.model.outcome import (
    Finding,
    FindingClass,
    Growth,
    GrowthPoint,
    Severity,
    Where,
)

_LINE = SourceLine(file="kernel.py", line=7, text="acc += x", what="adds")


def _finding(code: str, cause: Cause | None = None, *, id: str = "", **fields: object) -> Finding:
    usual: dict[str, object] = {
        "title": code,
        "message": f"message of {code}",
        "classes": (),
        "finding_class": FindingClass.WRONG,
        "severity": Severity.CRITICAL,
    }
    return Finding(code=code, cause=cause, id=id or code, **(usual | fields))  # type: ignore[arg-type]


def test_every_cause_has_a_page() -> None:
    assert set(PAGES) == set(Cause)
    for page in PAGES.values():
        assert page.words
        assert page.remedy
        assert not page.words.endswith(".")


def test_nothing_wrong_has_no_cause() -> None:
    unsafe = _finding("SHP001", Cause.REFUSES_SIZES, finding_class=FindingClass.UNSAFE)
    assert diagnose([unsafe]) == ()


@pytest.mark.parametrize(
    "cause", [Cause.WRONG_STRUCTURE, Cause.RAISES, Cause.NOT_BUILT, Cause.INPUT_CHANGED]
)
def test_a_broken_contract_comes_first_and_alone(cause: Cause) -> None:
    timing = _finding("PERF001", Cause.SLOW_HOST, measured=900.0, allowed=1.0)
    found = diagnose([timing, _finding("NUM001"), _finding("API002", cause)])
    assert [made.cause for made in found] == [cause]
    assert found[0].findings[0] == "API002"
    assert set(found[0].findings) == {"API002", "NUM001", "PERF001"}
    assert found[0].words == "message of API002"


def test_a_call_that_raises_on_changed_inputs_is_explained_by_the_change() -> None:
    changed = _finding("API001", Cause.INPUT_CHANGED)
    found = diagnose([_finding("RUN001", Cause.RAISES), changed])
    assert found[0].cause is Cause.INPUT_CHANGED
    assert found[0].findings == ("API001", "RUN001")


def test_laws_never_lead() -> None:
    law = _finding("META001", measured=1e9, allowed=1.0)
    (made,) = diagnose([law, _finding("NUM001", measured=2.0, allowed=1.0)])
    assert made.findings == ("NUM001", "META001")


def test_numbers_are_one_cause_with_the_smallest_input_of_any_of_them() -> None:
    small = _finding("SHP001", counterexample="# x with cols=3", holds_for="cols = 3, 5, not 2")
    (made,) = diagnose([_finding("NUM001"), small, _finding("META001")])
    assert made.example == "# x with cols=3"
    assert set(made.findings) == {"NUM001", "SHP001", "META001"}


def test_wrong_at_other_sizes_alone_is_no_tail_until_calls_show_it() -> None:
    found = _finding("SHP001", holds_for="cols = 3, 5, not 2, 4")
    (made,) = diagnose([found])
    assert made.cause is Cause.WRONG_VALUES
    clue = Clue(cause=Cause.TAIL, words="wrong at cols=3", basis=Basis.CHECK)
    (made,) = diagnose([found], Clues(numbers=clue))
    assert (made.cause, made.words) == (Cause.TAIL, "wrong at cols=3")


def test_a_cause_that_must_be_tested_is_not_said_untested() -> None:
    place = Where(output="y", index=(2, 7), got="0.0312500000001", expected="1.5", axes={"n": 9})
    small = Where(output="y", index=(0,), got="1.5000001", expected="1.5")
    found = [
        _finding("NUM002", Cause.LOW_ACCUMULATION, where=small, measured=99.0, allowed=1.0),
        _finding("NUM001", Cause.OUT_OF_RANGE, where=place, measured=50.0, allowed=1.0),
    ]
    (made,) = diagnose(found)
    assert made.cause is Cause.WRONG_VALUES
    assert made.words == "wrong numbers: y[2, 7] is 0.03125, expected 1.5 at n=9"
    (made,) = diagnose(found, Clues(confirmed=frozenset({Cause.LOW_ACCUMULATION})))
    assert made.cause is Cause.LOW_ACCUMULATION


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ((1e-3, 4e-3, 1.6e-2, 6.4e-2), Cause.LOW_ACCUMULATION),
        ((2e-2, 2.1e-2, 1.9e-2, 2e-2), Cause.WRONG_VALUES),  # K^0.0 is no growth
        ((1e-7, 1e-7, 0.6, 0.8), Cause.WRONG_VALUES),  # terms left out beyond a length
    ],
)
def test_an_error_is_a_lost_sum_only_where_one_power_of_the_length_fits(
    errors: tuple[float, ...], said: Cause
) -> None:
    points = tuple(
        GrowthPoint(length=64 * 4**n, error=error, trusted=1e-7) for n, error in enumerate(errors)
    )
    growth = Growth(
        axis="k", points=points, exponent=0.5, target=10**6, projected=1.0, trusted_exponent=0.0
    )
    (made,) = diagnose([_finding("NUM002", Cause.LOW_ACCUMULATION, growth=growth)])
    assert made.cause is said


def test_what_an_experiment_shows_instead_is_said_instead() -> None:
    held = _finding("STATE001", Cause.OUTPUT_REUSED)
    instead = {Cause.OUTPUT_REUSED: Cause.OUTPUT_SHARES_INPUT}
    confirmed = frozenset({Cause.OUTPUT_REUSED})
    (made,) = diagnose([held], Clues(confirmed=confirmed, instead=instead))
    assert made.cause is Cause.OUTPUT_SHARES_INPUT
    (made,) = diagnose([held])
    assert (made.cause, made.words) == (Cause.WRONG_VALUES, "message of STATE001")


def test_a_mutant_names_the_cause_and_the_line() -> None:
    clue = Clue(cause=Cause.WRONG_CONSTANT, words="eps left out", basis=Basis.MUTANT, line=_LINE)
    (made,) = diagnose([_finding("NUM001")], Clues(numbers=clue))
    assert (made.cause, made.line, made.basis) == (Cause.WRONG_CONSTANT, _LINE, Basis.MUTANT)
    assert made.words == "eps left out"


def test_an_input_that_reaches_nothing_is_the_cause_of_the_missing_operation() -> None:
    clue = Clue(cause=Cause.TERM_OMITTED, words="without `* scale`", basis=Basis.MUTANT)
    ignored = _finding("API003", Cause.INPUT_IGNORED)
    (made,) = diagnose([_finding("NUM001"), ignored], Clues(numbers=clue))
    assert made.cause is Cause.TERM_OMITTED
    confirmed = frozenset({Cause.INPUT_IGNORED})
    (made,) = diagnose([_finding("NUM001"), ignored], Clues(numbers=clue, confirmed=confirmed))
    assert made.cause is Cause.INPUT_IGNORED


def test_state_explains_wrong_numbers_unless_a_first_call_is_wrong_too() -> None:
    found = [_finding("STATE001", Cause.STALE_ANSWER), _finding("NUM001")]
    confirmed = frozenset({Cause.STALE_ANSWER})
    (made,) = diagnose(found, Clues(confirmed=confirmed))
    assert made.cause is Cause.STALE_ANSWER
    (made,) = diagnose(found, Clues(alone=True))
    assert made.cause is Cause.WRONG_VALUES


def test_memory_with_a_line_leads_and_explains_the_numbers() -> None:
    fault = _finding("MEM101", Cause.OUT_OF_BOUNDS, lines=(_LINE,))
    dependent = _finding("MEM002", Cause.UNINITIALISED)
    (made,) = diagnose([_finding("NUM001"), dependent, fault])
    assert (made.cause, made.line) == (Cause.OUT_OF_BOUNDS, _LINE)
    assert made.basis is Basis.MACHINE


def test_causes_with_a_line_stand_before_those_with_an_input_before_the_rest() -> None:
    found = [
        _finding("PERF001", Cause.SLOW_HOST),
        _finding("LAYOUT001", Cause.LAYOUT, counterexample="x"),
        _finding("RACE101", Cause.RACE, lines=(_LINE,)),
    ]
    assert [made.cause for made in diagnose(found)] == [
        Cause.RACE, Cause.LAYOUT, Cause.SLOW_HOST,
    ]  # fmt: skip


def test_at_most_three_causes() -> None:
    causes = [Cause.LAYOUT, Cause.STREAM, Cause.GRAPH, Cause.DEVICE, Cause.SLOW_HOST]
    assert len(diagnose([_finding(f"C{n}", cause) for n, cause in enumerate(causes)])) == 3


def test_a_kernel_that_raises_at_some_sizes_refuses_them() -> None:
    found = [_finding("RUN001", Cause.RAISES), _finding("SHP001", Cause.REFUSES_SIZES)]
    assert diagnose(found)[0].cause is Cause.RAISES
    assert diagnose(found, Clues(some_sizes=True))[0].cause is Cause.REFUSES_SIZES


def test_an_access_that_fails_at_a_small_size_is_no_overflow_of_a_large_one() -> None:
    other = SourceLine(file="kernel.py", line=9, text="tl.store(y + row * n)", what="write")
    small = _finding("MEM101", Cause.OUT_OF_BOUNDS, lines=(_LINE,))
    same = _finding("BIG002", Cause.LARGE_SIZES, id="F2", lines=(_LINE,))
    wraps = _finding("BIG002", Cause.LARGE_SIZES, id="F3", lines=(other,))
    assert [made.cause for made in diagnose([small, same])] == [Cause.OUT_OF_BOUNDS]
    both = diagnose([small, same, wraps])
    assert [made.cause for made in both] == [Cause.OUT_OF_BOUNDS, Cause.LARGE_SIZES]
    assert both[1].findings == ("F3",)

"""What the algebra said of two kernels, in lines for a terminal."""

from __future__ import annotations

from cuassay.model.machine import EqualityEvidence
from cuassay.report.terminal.equality import lines


def test_all_elements_are_equal() -> None:
    found = list(lines(EqualityEvidence(elements=2000, equal=2000, seeds=2, prime=2**61 - 1)))
    assert found[0].startswith("2,000 of 2,000 output elements (100 %) are the same expression")
    assert len(found) == 2
    assert f"d / {2**61 - 1} to the power 2 an element (1.9e-25 for" in found[1]


def test_one_element_that_differs_is_never_rounded_away() -> None:
    evidence = EqualityEvidence(
        elements=10_000_000, equal=9_999_999, output="y\x1b[31m", element=7, seeds=1, prime=101
    )
    found = list(lines(evidence))
    assert "(99.99 %)" in found[0]
    assert found[1].startswith("first other one: element 7 of output 'y")
    assert "\x1b" not in found[1]
    assert "rejects nothing" in found[2]


def test_with_roots_one_choice_has_to_show_it() -> None:
    evidence = EqualityEvidence(elements=1, equal=1, seeds=3, prime=10**12, roots=True)
    assert "at most seeds x d / 1000000000000 an element (3.0e-06" in list(lines(evidence))[1]

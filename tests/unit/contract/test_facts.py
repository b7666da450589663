"""Facts about inputs in words: one clause a kind, each with what tells it from its neighbours."""

from __future__ import annotations

import typing

import pytest

from cuassay.contract import facts
from cuassay.contract.facts import fact_words
from cuassay.model.domain import Structure
from cuassay.model.stated import FactKind

_SAID = [
    (facts.AnySize(axis="rows"), "rows may have sizes that no workload lists"),
    (
        facts.StepOfSize(axis="cols", multiple_of=8, minimum=16),
        "cols is a multiple of 8, at least 16",
    ),
    (facts.OnlySizes(axis="d", sizes=(64, 128)), "d is one of 64, 128"),
    (facts.TiedSize(axis="wide", expression="2 * heads"), "wide = 2 * heads"),
    (
        facts.SizeRule(axis="heads", other="kv", rule="heads % kv == 0"),
        "the reference takes sizes of which heads % kv == 0",
    ),
    (facts.DerivedSize(axis="out"), "out follows from the other axes"),
    (facts.Constant(input="scale", value=0.5), "every element of scale is 0.5"),
    (
        facts.EqualSlices(input="ids", dim=0, axis="batch"),
        "all slices of ids along batch are equal",
    ),
    (
        facts.EqualSlices(input="ids", dim=1, axis=""),
        "all slices of ids along dimension 1 are equal",
    ),
    (facts.Arange(input="ids", start=3), "every row of ids counts up from 3"),
    (facts.Sorted(input="ids"), "every row of ids is sorted"),
    (facts.Distinct(input="ids"), "no row of ids holds a number twice"),
    (facts.Binary(input="mask"), "mask holds zeros and ones alone"),
    (facts.NonNegative(input="x"), "x is never negative"),
    (facts.Bounded(input="ids", low=-1, axis="vocab"), "ids lies from -1 to vocab - 1"),
    (facts.SameForAllSeeds(input="table"), "table does not depend on random draws"),
    (facts.Related(inputs=("q", "k")), "q, k come from one another or from one tensor"),
    (
        facts.Used(input="ids", how="an index", axis="vocab"),
        "the reference uses ids as an index of vocab",
    ),
    (facts.Used(input="ids", how="a float"), "the reference uses ids as a float"),
]


@pytest.mark.parametrize(("fact", "words"), _SAID, ids=lambda one: type(one).__name__)
def test_a_fact_reads_as_a_clause(fact: facts.Fact, words: str) -> None:
    assert fact_words(fact) == words


def test_every_kind_of_fact_has_words_here() -> None:
    said = {type(fact) for fact, _ in _SAID}
    told_below = {facts.Structured, facts.Contradicted, facts.Stated}
    assert set(typing.get_args(facts.Fact)) == said | told_below


@pytest.mark.parametrize("structure", list(Structure))
def test_a_structure_is_told_in_its_own_words(structure: Structure) -> None:
    said = fact_words(facts.Structured(input="a", structure=structure))
    assert said == f"a is {structure.words}"


def test_a_guess_that_the_values_deny_shows_the_value() -> None:
    said = fact_words(facts.Contradicted(input="ids", guess="an index into vocab", value="-7"))
    assert "ids is not an index into vocab" in said
    assert said.endswith("hold -7")


def test_what_an_author_states_reads_like_what_was_seen() -> None:
    said = {kind: fact_words(facts.Stated(input="x", kind=kind, axis="rows")) for kind in FactKind}
    assert len(set(said.values())) == len(FactKind)
    assert all(words.count("x") for words in said.values())
    assert said[FactKind.SORTED] == fact_words(facts.Sorted(input="x"))
    assert said[FactKind.DISTINCT] == fact_words(facts.Distinct(input="x"))
    assert said[FactKind.BINARY] == fact_words(facts.Binary(input="x"))
    assert said[FactKind.NON_NEGATIVE] == fact_words(facts.NonNegative(input="x"))
    assert "rows" in said[FactKind.ALONG]

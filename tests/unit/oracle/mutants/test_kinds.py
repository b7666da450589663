"""Kinds of mutants: each has words, and classes that exist."""

from __future__ import annotations

from cuassay.model.failure_classes import FAILURE_CLASSES
from cuassay.oracle.mutants.kinds import KINDS, Mutant


def test_every_kind_belongs_to_known_failure_classes_and_no_words_stand_twice() -> None:
    for name, kind in KINDS.items():
        assert kind.classes, name
        assert set(kind.classes) <= set(FAILURE_CLASSES), name
    assert len({kind.words for kind in KINDS.values()}) == len(KINDS)


def test_a_mutant_stands_for_the_classes_of_its_kind() -> None:
    mutant = Mutant(kind="low", words="w", shown_by="s", run=lambda inputs: ())
    assert mutant.classes == KINDS["low"].classes == ("N1", "N2")

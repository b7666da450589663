"""Relations as their users write them, and in words."""

from __future__ import annotations

import pytest

from cuassay.model import relation as r


@pytest.mark.parametrize(
    ("relation", "text", "words"),
    [
        (
            r.RowsIndependent(axis="n"),
            "RowsIndependent(axis='n')",
            "each slice along 'n' depends on its own inputs alone",
        ),
        (
            r.PermutationEquivariant(axis="n", outputs=("y",)),
            "PermutationEquivariant(axis='n')",
            "the order along 'n' carries no meaning",
        ),
        (
            r.DuplicatesAgree(axis="n"),
            "DuplicatesAgree(axis='n')",
            "equal slices along 'n' give equal results",
        ),
        (
            r.PrefixStable(axis="t"),
            "PrefixStable(axis='t')",
            "the start of 't' does not depend on what follows",
        ),
        (
            r.AdditiveOver(axis="b", mean=True),
            "AdditiveOver(axis='b', mean=True)",
            "the whole of 'b' is the weighted mean of its parts",
        ),
        (
            r.AdditiveOver(axis="b"),
            "AdditiveOver(axis='b')",
            "the whole of 'b' is the sum of its parts",
        ),
        (r.LinearIn(input="g"), "LinearIn(input='g')", "the result is linear in 'g'"),
        (
            r.Homogeneous(input="x", degree=0),
            "Homogeneous(input='x', degree=0)",
            "scaling 'x' by c scales the result by c**0",
        ),
        (
            r.ShiftInvariant(input="x", axis="m"),
            "ShiftInvariant(input='x', axis='m')",
            "a constant added to 'x' along 'm' changes nothing",
        ),
        (
            r.RowsSumToOne(output="p", axis="m"),
            "RowsSumToOne(output='p', axis='m')",
            "'p' sums to one along 'm'",
        ),
        (r.Conserves(input="v"), "Conserves(input='v')", "'v' of ones gives ones"),
    ],
)
def test_a_relation_is_written_and_said(relation: r.Relation, text: str, words: str) -> None:
    assert r.text_of(relation) == text
    assert r.words_of(relation) == words
    assert eval(text, vars(r)) is not None  # what is shown can be written so


def test_outputs_that_a_relation_is_limited_to() -> None:
    assert r.outputs_of(r.RowsSumToOne(output="p", axis="m")) == ("p",)
    assert r.outputs_of(r.LinearIn(input="g", outputs=("y", "z"))) == ("y", "z")
    assert r.outputs_of(r.PrefixStable(axis="t")) == ()

"""Mutants that misread an input: a scalar that is the size of a tensor is none of them."""

from __future__ import annotations

import pytest
import torch

from cuassay.oracle.mutants.calls import misread


def test_a_scalar_that_is_a_size_stays() -> None:
    inputs = [torch.randn(4, 4), 3]

    def words(sizes: tuple[str, ...]) -> list[str]:
        found = misread(lambda given: (given[0],), inputs, ["x", "n"], {"n": 3}, fixed=sizes)  # type: ignore[arg-type, return-value]
        return [mutant.words for mutant in found]

    every, others = words(()), words(("n",))
    assert [one for one in every if one not in others] == [
        "input n one larger",
        "input n frozen at 3",
    ]
    assert len(others) == len(every) - 2


@pytest.mark.parametrize(
    ("tile", "words"),
    [
        (2, "input scales read at the first of each 2 alone along axis 1"),
        (8, "input scales read at the first of each 8 alone along axis 1"),
        (9, "input scales read at the first one alone along axis 1"),
    ],
)
def test_one_scale_for_a_tile_of_several_groups_is_a_suspect(tile: int, words: str) -> None:
    inputs = [torch.randn(3, 36), torch.randn(3, 9)]

    def right(given: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return (given[0] * given[1].repeat_interleave(4, 1),)

    first = torch.arange(9) // tile * tile
    broken = inputs[0] * inputs[1][:, first].repeat_interleave(4, 1)
    found = [
        mutant.words
        for mutant in misread(right, inputs, ["x", "scales"], {}, suspects=True)  # type: ignore[arg-type]
        if torch.equal(mutant.run(inputs)[0], broken)
    ]
    assert found == [words]

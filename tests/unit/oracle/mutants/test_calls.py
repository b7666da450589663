"""Mutants that misread an input: a scalar that is the size of a tensor is none of them."""

from __future__ import annotations

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

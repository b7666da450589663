"""Two kernels compared in the algebra: what counts as equal, and with which chance of error."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.equivalence import Equivalence, Executed, Expected, Output, equivalent, expected_at
from ptxsan.launch import Buffer
from ptxsan.numerics.residues import P
from ptxsan.residues import Residues


def _output(values: list[int], *, written: list[int] | None = None, type_: str = "s32") -> Output:
    data = np.array(values, np.int32).view(np.uint8)
    buffer = Buffer(name="y", data=data)
    if written is not None:
        buffer.initialised = np.repeat(np.array(written, np.uint8), 4)
    offsets = 4 * np.arange(len(values), dtype=np.int64)
    return Output(name="y", buffer=buffer, type=type_, offsets=offsets, width=4)


def _kernel(*outputs: Output, roots: bool = False):  # type: ignore[no-untyped-def]
    return lambda residues: Executed(outputs=outputs, roots=roots)


def test_integers_are_compared_by_their_bits_and_the_first_that_differs_is_named() -> None:
    same = equivalent(_kernel(_output([1, 2, 3])), _kernel(_output([1, 2, 3])))
    assert (same.equal, same.elements, same.first, same.share) == (3, 3, None, 1.0)
    first = _kernel(_output([1, 2]), _output([3, 4]))
    second = _kernel(_output([1, 2]), _output([3, 5]))
    assert equivalent(first, second).first == ("y", 1)


def test_what_only_one_kernel_wrote_is_not_equal() -> None:
    found = equivalent(
        _kernel(_output([1, 0], written=[1, 0])), _kernel(_output([1, 0], written=[1, 1]))
    )
    assert (found.equal, found.first) == (1, ("y", 1))


def test_outputs_of_other_shapes_or_types_cannot_be_compared() -> None:
    for other in (_output([1]), _output([1, 2], type_="f32")):
        with pytest.raises(ValueError, match="output 'y' has 2 elements"):
            equivalent(_kernel(_output([1, 2])), _kernel(other))


def test_with_roots_one_choice_of_residues_is_enough() -> None:
    turns: list[int] = []

    def second(residues: Residues) -> Executed:
        turns.append(1)
        return Executed(outputs=(_output([1, 7 if len(turns) == 1 else 2]),), roots=True)

    found = equivalent(_kernel(_output([1, 2]), roots=True), second)
    assert found.equal == 2
    turns.clear()
    strict = equivalent(
        _kernel(_output([1, 2])),
        lambda residues: Executed(outputs=second(residues).outputs, roots=False),
    )
    assert strict.equal == 1  # without roots every choice has to agree


def test_the_chance_of_error_falls_with_seeds_and_not_with_roots() -> None:
    def chance(seeds: int, roots: bool) -> float:
        found = Equivalence(elements=1, equal=1, first=None, seeds=seeds, roots=roots)
        return found.chance(1000)

    once = 1000 / P
    assert chance(2, False) == pytest.approx(once**2)
    assert chance(3, True) == pytest.approx(3 * once)
    assert Equivalence(elements=1, equal=1, first=None, seeds=9, roots=True).chance(P) == 1.0


def test_codes_that_are_expected_are_held_against_what_was_written() -> None:
    one = _output([5, 6], written=[1, 0])
    residues = Residues(seed=1)
    codes = np.array([5, 6], np.int64)
    found = expected_at(one, Expected(slots=None, codes=codes), residues)
    assert found.tolist() == [True, False]
    with pytest.raises(ValueError, match="is s32, and the reference's is not"):
        expected_at(one, Expected(slots=codes, values=np.zeros(2)), residues)

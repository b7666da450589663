"""Legal domains: what they name, and the numbers that follow from their fields."""

from __future__ import annotations

import pytest

from cuassay.model.domain import (
    SCALE_TILES,
    Choice,
    Domain,
    Index,
    Lengths,
    Offsets,
    Packed,
    Real,
    SizeOf,
    Structure,
    Swizzled,
    domain_axes,
)


@pytest.mark.parametrize(
    ("domain", "axes"),
    [
        (Index(axis="rows"), ["rows"]),
        (Lengths(axis="tokens", page=16), ["tokens"]),
        (Offsets(axis="total // 2"), ["total // 2"]),
        (SizeOf(axis="rows"), ["rows"]),
        (Swizzled(rows="rows", columns="cols // 16"), ["rows", "cols // 16"]),
        (Real(), []),
        (Choice(values=(1, 2)), []),
    ],
)
def test_a_domain_names_the_axes_that_its_values_depend_on(domain: Domain, axes: list[str]) -> None:
    assert list(domain_axes(domain)) == axes


def test_the_largest_code_is_the_last_one_unless_it_is_stated() -> None:
    assert [Packed(bits=bits).top for bits in (2, 4, 8)] == [3, 15, 255]
    assert Packed(bits=4, high=7).top == 7
    assert Packed(bits=4, high=0).top == 0


def test_structures_are_adjectives() -> None:
    assert Structure.POSITIVE_DEFINITE.words == "positive definite"
    assert all("_" not in one.words for one in Structure)


def test_a_layout_of_scales_has_its_tile() -> None:
    assert Swizzled(rows="m", columns="n").layout in SCALE_TILES

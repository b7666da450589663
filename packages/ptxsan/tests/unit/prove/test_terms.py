"""Bounds of what stands for a choice, and bits of sums."""

from __future__ import annotations

from ptxsan.prove.terms import Atoms, of


def test_the_greater_of_two_is_at_least_both_and_can_divide() -> None:
    atoms = Atoms()
    some = atoms.symbol("x", -5, 9)
    greater = atoms.maximum(of(some), of(1))
    assert greater.interval() == (1, 9)
    assert atoms.minimum(of(some), of(3)).interval() == (-5, 3)
    assert atoms.quotient(of(some), greater).atoms


def test_what_is_chosen_without_doubt_keeps_its_bounds() -> None:
    atoms = Atoms()
    some = atoms.symbol("x", -5, 9)
    least = atoms.minimum(of(some), of(-2))
    assert least.interval() == (-5, -2)
    assert atoms.maximum(-least, of(1)) == -least
    assert least.interval() == (-5, -2)

"""Terms of one thread said of another: what is shared stays, all else is new, once."""

from __future__ import annotations

from ptxsan.prove.renaming import Renaming
from ptxsan.prove.terms import All, Atoms, Flag, Le, conjunction, of


def test_shared_symbols_stay_and_others_get_one_new_name_each() -> None:
    atoms = Atoms()
    n, t = atoms.symbol("n", 1, 64), atoms.symbol("tid", 0, 31)
    other = Renaming(atoms=atoms, shared=frozenset((n,)))
    poly = of(n) * 4 + of(t)
    moved = other.poly(poly)
    assert moved != poly
    assert moved == other.poly(poly)
    assert moved.interval() == poly.interval()
    assert other.poly(of(n)) == of(n)


def test_what_is_computed_of_symbols_is_computed_of_the_new_ones() -> None:
    atoms = Atoms()
    t = atoms.symbol("tid", 0, 127)
    other = Renaming(atoms=atoms, shared=frozenset(), replaced={t: of(9)})
    assert other.poly(atoms.quotient(of(t), of(4))) == of(2)
    assert other.poly(atoms.remainder(of(t), of(4))) == of(1)
    assert other.poly(atoms.choice(Le(of(t) - 5), of(1), of(2))) == of(2)
    assert other.poly(of(t) * of(t) + 1) == of(82)


def test_flags_are_the_other_threads_own_unless_all_stays() -> None:
    atoms = Atoms()
    t = atoms.symbol("tid", 0, 31)
    formula = conjunction([Le(of(t) - 5), Flag("p", True)])
    other = Renaming(atoms=atoms, shared=frozenset()).formula(formula)
    assert isinstance(other, All)
    assert Flag("p of the other", True) in other.items
    same = Renaming(atoms=atoms, shared=frozenset(), identity=True)
    assert same.formula(formula) == formula


def test_a_value_loaded_from_one_place_is_one_value_for_both_threads() -> None:
    atoms = Atoms()
    n, t = atoms.symbol("n", 1, 64), atoms.symbol("tid", 0, 31)
    loaded, own = atoms.symbol("loaded", 0, 9), atoms.symbol("own", 0, 9)
    place = object()
    loads = {loaded: (place, of(n)), own: (place, of(t))}
    other = Renaming(atoms=atoms, shared=frozenset((n,)), loads=loads)  # type: ignore[arg-type]
    assert other.poly(of(loaded)) == of(loaded)
    assert other.poly(of(own)) != of(own)

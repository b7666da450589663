"""Registers of a symbolic thread on a path, and how two paths become one."""

from __future__ import annotations

from ptxsan.prove.solver import Solver
from ptxsan.prove.state import Numbers, State, chosen, extended, merged, word
from ptxsan.prove.terms import FALSE, TRUE, Atoms, Flag, Le, of


def _atoms() -> tuple[Atoms, object]:
    atoms = Atoms()
    return atoms, atoms.symbol("n", 0, 1000)


def test_words_of_local_memory_are_forgotten_where_they_overlap() -> None:
    state = State({word("a", 0, 4): of(1), word("a", 4, 4): of(2), word("b", 0, 4): of(3),
                   "%r1": of(4)})  # fmt: skip
    state.forget("a", 2, 2)
    assert state.words == {word("a", 4, 4), word("b", 0, 4)}
    other = state.copy()
    other.forget("a")
    assert other.words == {word("b", 0, 4)}
    assert len(state.words) == 2
    assert other.registers["%r1"] == of(4)


def test_a_path_grows_by_what_it_does_not_say_and_ends_where_nothing_holds() -> None:
    flag = Flag("p", True)
    assert extended((flag,), flag) == (flag,)
    assert extended((), flag) == (flag,)
    assert extended((flag,), FALSE) is None
    assert extended((flag,), TRUE) == (flag,)


def test_two_paths_become_one_that_chooses_by_what_parts_them() -> None:
    atoms, n = _atoms()
    flag = Flag("p", True)
    shared = Le(of(n) - 7)  # type: ignore[arg-type]
    left = ((shared, flag), State({"%r1": of(1), "%r2": of(n), "%r3": of(1)}))  # type: ignore[arg-type]
    right = ((shared, Flag("p", False)), State({"%r1": of(5), "%r2": of(n)}))  # type: ignore[arg-type]
    path, state = merged([left, right], ["%r1", "%r2", "%r3"], atoms)
    assert path == (shared,)
    assert state.registers["%r2"] == of(n)  # type: ignore[arg-type]
    assert "%r3" not in state.registers  # one path does not know it
    one = state.registers["%r1"]
    assert one.interval() == (1, 5)  # type: ignore[union-attr]


def test_values_of_two_kinds_are_anything_and_predicates_are_chosen_by_formulas() -> None:
    atoms, _ = _atoms()
    flag, p = Flag("p", True), Flag("q", True)
    assert chosen(atoms, flag, of(1), p) is None
    assert chosen(atoms, flag, p, of(1)) is None
    assert chosen(atoms, flag, p, p) == p
    assert chosen(atoms, TRUE, p, flag) == p
    assert chosen(atoms, FALSE, p, flag) == flag


def test_a_number_in_range_is_the_one_that_the_register_shows() -> None:
    atoms, n = _atoms()
    numbers = Numbers(atoms, Solver(), quiet=True)
    poly = of(n)  # type: ignore[arg-type]
    assert numbers.canonical(poly, 32, (), signed=False) == poly
    assert numbers.canonical(poly + (1 << 32), 32, (), signed=False) == poly
    assert numbers.canonical(of(-1), 32, (), signed=False) == of((1 << 32) - 1)
    assert numbers.canonical(of(0xFFFFFFFF), 32, (), signed=True) == of(-1)
    wide = numbers.canonical(poly * (1 << 30), 32, (), signed=False)
    assert wide != poly * (1 << 30)  # less whole turns

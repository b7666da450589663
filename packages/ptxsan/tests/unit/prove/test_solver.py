"""The solver: what it settles, and that its limits count work and not time."""

from __future__ import annotations

import pytest

from ptxsan.prove import solver
from ptxsan.prove.solver import Countered, Discharge, Open, Shown, Solver
from ptxsan.prove.terms import Atoms, Eq, Formula, Le, of

z3 = pytest.importorskip("z3")


def test_products_of_known_inequalities_are_shown_by_linear_arithmetic() -> None:
    atoms = Atoms()
    row, column, rows, columns = (atoms.symbol(name, 0, 1 << 31) for name in "rcmn")
    facts: list[Formula] = [Le(of(row) - of(rows) + 1), Le(of(column) - of(columns) + 1)]
    inside = Le(of(row) * of(columns) + of(column) - of(rows) * of(columns) + 1)
    assert Solver().answer(facts, inside) == Shown(Discharge.LINEAR)


def test_what_does_not_follow_has_values_that_show_it() -> None:
    atoms = Atoms()
    x, y = atoms.symbol("x", 0, 100), atoms.symbol("y", 0, 100)
    found = Solver().answer([Le(of(x) - of(y))], Le(of(x) - 99))
    assert isinstance(found, Countered)
    assert found.values[x] == found.values[y] == 100


def test_a_hard_question_ends_after_the_same_work_whenever_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solver, "_FULL", 100_000)
    # x^3 + y^3 + z^3 = 114: nobody knows whether there is an answer.
    atoms = Atoms()
    x, y, z = (of(atoms.symbol(name, -(1 << 40), 1 << 40)) for name in "xyz")
    hard = Eq(x * x * x + y * y * y + z * z * z - 114)
    found = [Solver().answer([hard], Le(of(1))) for _ in range(2)]
    assert isinstance(found[0], Open)
    assert found[0] == found[1]
    assert "steps" in found[0].reason

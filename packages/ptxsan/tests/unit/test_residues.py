"""The algebra of a run: its seed decides residues, and its table counts what was kept."""

from __future__ import annotations

from ptxsan.residues import Residues


def test_seed_and_strictness_decide_the_key() -> None:
    keys = {Residues(seed=seed, strict=strict).key for seed in (1, 2) for strict in (False, True)}
    assert len(keys) == 4
    assert Residues(seed=7).key == Residues(seed=7).key
    assert Residues(seed=-1).key == 0xFFFFFFFF  # 32 bits of a seed count
    assert Residues(seed=3, strict=True).key == 3 | 1 << 32


def test_a_new_table_holds_nothing() -> None:
    first, second = Residues(), Residues()
    assert first.stored == 0
    assert first.table is not second.table

"""What shadows a run carries, by its options."""

from __future__ import annotations

from ptxsan.options import Options
from ptxsan.residues import Residues


def test_shadows_are_of_three_kinds() -> None:
    assert Options().kind == "float64"
    assert Options(shadow=False).kind == "none"
    assert Options(shadow=Residues()).kind == "algebra"

"""The machine against an H200: digests of what its threads stored, kept in tests/data/machine.

`benchmarks/machine_fidelity.py compare` looks at all of them; here a sample runs.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from cuassay.machine.fuzz.execute import run_unit, unit_inputs
from cuassay.machine.fuzz.table import ROWS

_DIGESTS = Path(__file__).resolve().parents[2] / "data" / "machine" / "h200.npz"
_EXACT = [index for index, row in enumerate(ROWS) if not row.leaf]


@pytest.mark.parametrize("index", _EXACT[::12], ids=lambda index: ROWS[index].opcode)
def test_an_instruction_gives_what_an_h200_gives(index: int) -> None:
    """1 024 operands with special values, every bit."""
    kept = np.load(_DIGESTS)
    row = ROWS[index]
    assert zlib.crc32(run_unit(row, unit_inputs(row)).tobytes()) == int(kept["units"][index])

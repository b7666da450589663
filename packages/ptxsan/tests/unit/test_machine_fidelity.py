"""The machine against an H200: digests of what its threads stored, kept in tests/data.

`benchmarks/machine_fidelity.py compare` looks at all of them; here a sample runs.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from ptxsan_fuzz.execute import run_text, run_unit, unit_inputs
from ptxsan_fuzz.inputs import words
from ptxsan_fuzz.programs import (
    HEADER,
    INPUT_WORDS,
    OUTPUT_WORDS,
    THREADS,
    generate,
    program_digest,
)
from ptxsan_fuzz.table import ROWS
from ptxsan_support.thorough import one_in

_DIGESTS = Path(__file__).resolve().parents[1] / "data" / "h200.npz"
_ASSEMBLED = _DIGESTS.with_name("assembled.json")
_EXACT = [index for index, row in enumerate(ROWS) if not row.leaf]


@pytest.mark.parametrize("index", one_in(3, _EXACT[::12]), ids=lambda index: ROWS[index].opcode)
def test_an_instruction_gives_what_an_h200_gives(index: int) -> None:
    """1 024 operands with special values, every bit."""
    kept = np.load(_DIGESTS)
    row = ROWS[index]
    assert zlib.crc32(run_unit(row, unit_inputs(row)).tobytes()) == int(kept["units"][index])


@pytest.mark.parametrize("seed", [0, 1, 2, 153, 369, 2531, 3179])
def test_a_random_program_stores_what_an_h200_stores(seed: int) -> None:
    """The last four with an instruction replaced by what ptxas made of it, as the SASS shows."""
    edits = {index: new for index, _, new in json.loads(_ASSEMBLED.read_text()).get(str(seed), [])}
    lines = generate(seed, careful=False).text.split("\n")
    kept = [one for index, line in enumerate(lines) for one in edits.get(index, [line])]
    given = words(seed, THREADS * INPUT_WORDS)
    text = HEADER + "\n".join(kept)
    found = run_text(text, f"fuzz{seed}", given, OUTPUT_WORDS, (1, THREADS))
    assert program_digest(found) == int(np.load(_DIGESTS)["careless"][seed])
    assert bool(edits) == (seed > 2)

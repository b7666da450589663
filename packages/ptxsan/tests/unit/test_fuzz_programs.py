"""Random programs: the same for the same seed, within their limits, and accepted by ptxas."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from ptxsan.parser import parse
from ptxsan_fuzz.inputs import mix, words
from ptxsan_fuzz.programs import (
    OUTPUT_WORDS,
    PROGRAM_ROWS,
    REGISTERS,
    generate,
    module,
)

CARELESS = 0xCCC73B09  # CRC of the first fifty


def test_a_seed_makes_one_program() -> None:
    assert generate(7) == generate(7)
    assert generate(7).text.replace("fuzz7", "x") != generate(8).text.replace("fuzz8", "x")


def test_a_thread_stores_every_register() -> None:
    text = generate(3).text
    for letter, count in REGISTERS.items():
        if letter != "p":
            assert all(f"], %{letter}{index};" in text for index in range(count))
    assert OUTPUT_WORDS % 2 == 0


def test_a_thousand_programs_use_every_spelling() -> None:
    seen = "\n".join(generate(seed).text for seed in range(1500))
    missing = [row.opcode for row in PROGRAM_ROWS if f"{row.opcode} %" not in seen]
    assert missing == []


def test_programs_parse() -> None:
    programs = [generate(seed) for seed in range(20)]
    assert parse(module(programs)).entries == tuple(program.name for program in programs)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not on PATH")
def test_the_vendors_assembler_takes_them(tmp_path: Path) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(module([generate(seed) for seed in range(40)]))
    done = subprocess.run(
        ["ptxas", "-arch=sm_90", str(source), "-o", str(tmp_path / "k.cubin")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:2000]


def test_inputs_are_the_same_everywhere() -> None:
    """The dumps of another machine are compared with inputs that are made again here."""
    assert [int(value) for value in mix(1, 2)] == [int(value) for value in mix(1, 5)[:2]]
    assert len(np.unique(words(5, 1024))) > 800
    assert not np.array_equal(words(5, 64), words(6, 64))


_ASSEMBLED_OTHERWISE = (
    r"@!?%\w+ testp",
    r"(?:shl\.b64|shr\.[us]64) %d\d, %d\d, %r",
    r"st\.local\.u8 \[own\+\d+\], %[rh]\d",
    r"mad\.hi\.\w+ (%r\d+), %r\d+, %r\d+, \1;",
    r"(?:min|max)\.[\w.]+ %\w+, (%\w+), \1;",
    r"(?:\n|\d )(?:neg|abs)\.(?:ftz\.)?b?f\d",
)


def test_careful_programs_avoid_what_ptxas_assembles_otherwise() -> None:
    """Each was found by comparing with an H200 and shown in SASS (docs/machine-numerics.md)."""
    careful = "\n".join(generate(seed).text for seed in range(200))
    careless = "\n".join(generate(seed, careful=False).text for seed in range(400))
    for pattern in _ASSEMBLED_OTHERWISE:
        assert re.search(pattern, careful) is None, pattern
        assert re.search(pattern, careless) is not None, pattern


def test_careless_programs_are_those_that_were_dumped() -> None:
    """The first dump of an H200 (tests/data) is of these texts."""
    texts = "".join(generate(seed, careful=False).text for seed in range(50))
    assert zlib.crc32(texts.encode()) == CARELESS

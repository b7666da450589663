"""`--arg NAME=SPEC`: what becomes of every kind of it, and of mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxsan.api import Fresh
from ptxsan.arguments import parsed
from ptxsan.errors import UsageError


def _value(spec: str) -> object:
    name, value = parsed(f"x={spec}", np.random.default_rng(0))
    assert name == "x"
    return value


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("12", 12), ("-0x10", -16), ("1.5", 1.5), ("1e3", 1000.0), ("null", None),
        ("hex:00ff", b"\x00\xff"),
    ],
)  # fmt: skip
def test_numbers_bytes_and_null(spec: str, expected: object) -> None:
    found = _value(spec)
    assert found == expected
    assert type(found) is type(expected)


def test_arrays_have_type_shape_and_contents() -> None:
    iota = _value("iota:i32[2,3]")
    assert isinstance(iota, np.ndarray)
    assert (iota.dtype, iota.tolist()) == (np.int32, [[0, 1, 2], [3, 4, 5]])
    ones = _value("ones:bf16[4]")
    assert isinstance(ones, np.ndarray)
    assert ones.tolist() == [0x3F80] * 4  # codes of bfloat16
    noise = _value("f32[1000]")
    assert isinstance(noise, np.ndarray)
    assert noise.dtype == np.float32
    assert 0.8 < noise.std() < 1.2
    flags = _value("bool[64]")
    assert isinstance(flags, np.ndarray)
    assert 0 < flags.sum() < 64


def test_an_output_holds_what_no_kernel_should_read() -> None:
    fresh = _value("out:f16[2]")
    assert isinstance(fresh, Fresh)
    assert fresh.array.view(np.uint16).tolist() == [0xFFFF] * 2  # NaN


def test_a_file_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(2, 3).T)
    found = _value(f"@{tmp_path / 'x.npy'}")
    assert isinstance(found, np.ndarray)
    assert found.flags.c_contiguous
    assert found.tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "expected NAME=SPEC"),
        ("=3", "expected NAME=SPEC"),
        ("x=f31[4]", "expected a type of f16, f32"),
        ("x=some:f32[4]", "perhaps one of out:, random:"),
        ("x=many", "'many' is no array"),
        ("x=hex:0g", "'hex:0g' is no array"),
        ("x=@/nowhere.npy", "expected a .npy file"),
    ],
)
def test_mistakes_say_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(UsageError) as failure:
        parsed(text, np.random.default_rng(0))
    assert message in str(failure.value)
    assert f"--arg {text}" in str(failure.value)

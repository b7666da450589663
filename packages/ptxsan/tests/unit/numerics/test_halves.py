"""Float instructions executed by the machine, against exact rounding and against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.numerics import halves, rounding
from ptxsan.numerics.formats import BF16, F16, F32, FloatFormat
from ptxsan.numerics.halves import FLUSH_INPUT, SAT
from ptxsan.numerics.rounding import FLUSH, RELU
from ptxsan_fuzz.execute import UNITS, run_unit, unit_inputs
from ptxsan_fuzz.table import ROWS, Row
from ptxsan_support.thorough import one_in

_BY_OPCODE = {row.opcode: row for row in ROWS}
_FORMATS = {"f16": F16, "bf16": BF16, "f32": F32}
_MODES = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}


def _expected(row: Row, given: NDArray[np.uint64], format_: FloatFormat) -> list[int]:
    parts = row.opcode.split(".")
    mode = next((_MODES[part] for part in parts if part in _MODES), 0)
    flags = (FLUSH | FLUSH_INPUT) * ("ftz" in parts) | SAT * ("sat" in parts)
    flags |= RELU * ("relu" in parts)
    mask, index = (1 << format_.bits) - 1, format_.index
    sign = 1 << (format_.bits - 1)
    results = []
    for line in given:
        a, b, c = (int(line[place % len(line)]) & mask for place in range(3))
        match parts[0]:
            case "add":
                code = halves.add(a, b, index, mode, flags)
            case "sub":
                code = halves.add(a, b ^ sign, index, mode, flags)
            case "mul":
                code = halves.multiply(a, b, index, mode, flags)
            case "fma":
                code = halves.multiply_add(a, b, c, index, mode, flags)
            case "div":
                code = halves.divide(a, b, index, mode, flags)
            case "sqrt":
                code = halves.square_root(a, index, mode, flags)
            case _:
                code = halves.divide(rounding.encode(1.0, index, 0, 0), a, index, mode, flags)
        results.append(code)
    return results


_ARITHMETIC = [
    opcode
    for opcode in _BY_OPCODE
    if opcode.split(".")[0] in ("add", "sub", "mul", "fma", "div", "sqrt", "rcp")
    and opcode.split(".")[-1] in _FORMATS
    and not _BY_OPCODE[opcode].leaf
]


@pytest.mark.parametrize("opcode", one_in(3, _ARITHMETIC[::3]))
def test_arithmetic_is_rounded_once(opcode: str) -> None:
    """Inline code for rounding to nearest agrees with the exact functions, special values too."""
    row = _BY_OPCODE[opcode]
    given = unit_inputs(row)
    expected = _expected(row, given, _FORMATS[opcode.split(".")[-1]])
    assert [int(value) for value in run_unit(row, given)] == expected


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_narrowing_rounds_once(name: str, mode: str) -> None:
    row = _BY_OPCODE[f"cvt.{mode}.{name}.f32"]
    given = unit_inputs(row)
    index = _FORMATS[name].index
    expected = [
        rounding.encode(
            rounding.decode(int(line[0]) & 0xFFFFFFFF, F32.index), index, _MODES[mode], 0
        )
        for line in given
    ]
    assert [int(value) for value in run_unit(row, given)] == expected


def test_packing_puts_the_first_operand_high() -> None:
    row = _BY_OPCODE["cvt.rn.bf16x2.f32"]
    given = np.zeros((UNITS, 2), np.uint64)
    given[:, 0], given[:, 1] = 0x3F800000, 0x40000000
    assert set(run_unit(row, given).tolist()) == {0x3F804000}


def _values(bits: NDArray[np.uint64], *, wide: bool) -> NDArray[np.float64]:
    if wide:
        return np.ascontiguousarray(bits).view(np.float64)
    with np.errstate(invalid="ignore"):
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("opcode", ["setp.lt.f32", "setp.neu.f32", "setp.nan.f32", "setp.ge.f64"])
def test_comparisons_know_nan(opcode: str) -> None:
    row = _BY_OPCODE[opcode]
    given = unit_inputs(row)
    given[::4, 1] = given[::4, 0]
    x, y = (_values(given[:, place], wide=opcode.endswith("64")) for place in (0, 1))
    unordered = np.isnan(x) | np.isnan(y)
    expected = {
        "setp.lt.f32": (x < y) & ~unordered,
        "setp.neu.f32": (x != y) | unordered,
        "setp.nan.f32": unordered,
        "setp.ge.f64": (x >= y) & ~unordered,
    }[opcode]
    assert (run_unit(row, given) != 0).tolist() == expected.tolist()
    assert 0 < int(expected.sum()) < UNITS

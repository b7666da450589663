"""The tensor cores' sum against the same rule in unbounded integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from ptxsan.numerics import dot, rounding
from ptxsan.numerics.formats import BF16, BY_NAME, E4M3, E5M2, F16, F32, TF32, FloatFormat
from ptxsan.runtime.matrix import product
from ptxsan_support.rounding import floor_log2


def _exponent(code: int, format_: FloatFormat) -> int:
    value = abs(Fraction(rounding.decode(code, format_.index)))
    return max(floor_log2(value), format_.min_exponent)


def _cut(value: Fraction, quantum: Fraction) -> Fraction:
    return Fraction(math.trunc(value / quantum)) * quantum


def _rule(a: list[int], b: list[int], c: int, format_: FloatFormat, bits: int) -> float:
    """Return one step by the rule of docs/machine.md, in rationals."""
    exponents, terms = [], []
    for x, y in zip(a, b, strict=True):
        product = Fraction(dot.load_factor(x, format_.index)) * Fraction(
            dot.load_factor(y, format_.index)
        )
        if product:
            exponents.append(_exponent(x, format_) + _exponent(y, format_))
            terms.append(product)
    accumulator = Fraction(rounding.decode(c, F32.index))
    if accumulator:
        exponents.append(_exponent(c, F32))
        terms.append(accumulator)
    if not terms:
        return 0.0
    quantum = Fraction(2) ** (max(exponents) - bits)
    total = sum((_cut(term, quantum) for term in terms), Fraction(0))
    if not total:
        return 0.0
    return float(_cut(total, Fraction(2) ** (max(floor_log2(abs(total)), -126) - 23)))


def _random_codes(
    rng: np.random.Generator, format_: FloatFormat, shape: tuple[int, ...], spread: int
) -> np.ndarray:
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    values[rng.random(shape) < 0.1] = 0.0
    flat = [rounding.encode(float(v), format_.index, 0, 1) for v in values.ravel()]
    return np.array(flat, np.int64).reshape(shape)


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
@pytest.mark.parametrize("spread", [0, 3, 12])
def test_tile_follows_the_rule(name: str, spread: int) -> None:
    format_, rng = BY_NAME[name], np.random.default_rng(spread)
    depth = {"tf32": 8, "e4m3": 32, "e5m2": 32}.get(name, 16)
    rule = dot.sum_rule(90, 4 if name == "tf32" else 2)
    a = _random_codes(rng, format_, (4, depth), spread)
    b = _random_codes(rng, format_, (3, depth), spread)
    c = _random_codes(rng, F32, (4, 3), spread)
    result = np.empty_like(c)
    dot.tile(a, b, c, result, format_.index, F32.index, rule.block, rule.fraction_bits)
    for m in range(4):
        for n in range(3):
            code = int(c[m, n])
            for first in range(0, depth, rule.block):
                part = slice(first, first + rule.block)
                want = _rule(list(a[m, part]), list(b[n, part]), code, format_, rule.fraction_bits)
                code = rounding.encode(want, F32.index, 1, 0)
            assert result[m, n] == code


def _single(a: list[int], b: list[int], c: int, *, format_: FloatFormat = BF16) -> int:
    result = np.empty((1, 1), np.int64)
    pad = [0] * (16 - len(a))
    dot.tile(
        np.array([a + pad]), np.array([b + pad]), np.array([[c]]), result,
        format_.index, F32.index, 16, 25,
    )  # fmt: skip
    return int(result[0, 0])


def test_infinities_and_nan() -> None:
    one, inf, minus_inf, nan = 0x3F80, 0x7F80, 0xFF80, 0x7FC0
    assert _single([inf], [one], 0) == 0x7F800000
    assert _single([inf, one], [one, minus_inf], 0) == 0x7FFFFFFF
    assert _single([inf], [0], 0) == 0x7FFFFFFF
    assert _single([nan], [one], 0) == 0x7FFFFFFF
    assert _single([one], [one], 0xFF800000) == 0xFF800000


def test_sums_beyond_float32_overflow() -> None:
    largest = 0x7F7F
    assert _single([largest], [largest], 0) == 0x7F800000


def test_small_terms_fall_off_below_the_unit() -> None:
    """2**-26 beside 1 is cut away; with rounding to nearest four of them would not be."""
    one, small = 0x3F80, rounding.encode(2.0**-26, BF16.index, 0, 0)
    assert _single([one] + [small] * 15, [one] * 16, 0) == 0x3F800000


def test_older_architectures_add_in_smaller_blocks() -> None:
    assert dot.sum_rule(90, 2).block == 16
    assert dot.sum_rule(80, 2).block == 8
    assert dot.sum_rule(80, 4).block == 4
    assert dot.sum_rule(100, 2) == dot.sum_rule(90, 2)


def test_tf32_ignores_the_low_thirteen_bits() -> None:
    exact = rounding.encode(1.5, F32.index, 0, 0)
    assert _single([exact | 0x1FFF], [exact], 0, format_=TF32) == _single(
        [exact], [exact], 0, format_=TF32
    )


def test_f16_accumulators_round_to_nearest() -> None:
    result = np.empty((1, 1), np.int64)
    one, tiny = 0x3C00, 0x1000  # 1 and 2**-11: half a unit of 1, to even
    a, b = np.zeros((1, 16), np.int64), np.zeros((1, 16), np.int64)
    a[0, :2], b[0, :2] = (one, tiny), (one, one)
    dot.tile(a, b, np.zeros((1, 1), np.int64), result, F16.index, F16.index, 16, 25)
    assert result[0, 0] == one


def test_the_fp8_formats_are_read_as_documented() -> None:
    assert dot.exponent_in(0x7F, E4M3.index) == dot.SPECIAL
    assert dot.exponent_in(0x7E, E4M3.index) == 8
    assert dot.exponent_in(0x7C, E5M2.index) == dot.SPECIAL
    assert dot.exponent_in(0x01, E5M2.index) == -14


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("index", [F16.index, F32.index])
def test_columns_do_not_touch_each_other(name: str, index: int) -> None:
    """Eight outputs are added at once: each must be what it is alone, beside inf, NaN and zeros."""
    format_, rng = BY_NAME[name], np.random.default_rng(7)
    a = _random_codes(rng, format_, (3, 16), 6)
    b = _random_codes(rng, format_, (11, 16), 6)
    accumulators = {F16.index: F16, F32.index: F32}[index]
    c = _random_codes(rng, accumulators, (3, 11), 6)
    infinity = rounding.encode(math.inf, format_.index, 0, 0)
    b[2, 5], b[4, 7], b[9] = infinity, infinity | 1, 0
    c[0, 6], c[1, 6] = (rounding.encode(value, index, 0, 0) for value in (math.inf, -math.inf))
    c[2] = 0
    together = np.empty_like(c)
    dot.tile(a, b, c, together, format_.index, index, 16, 25)
    for m in range(3):
        for n in range(11):
            alone = np.empty((1, 1), np.int64)
            row, column = a[m : m + 1], b[n : n + 1]
            dot.tile(row, column, c[m : m + 1, n : n + 1], alone, format_.index, index, 16, 25)
            assert together[m, n] == alone[0, 0]
    assert not np.isfinite(rounding.decode(int(together[0, 2]), index))
    assert together[2, 9] == 0


def test_sums_below_float32s_normal_numbers_are_cut_too() -> None:
    """2**-126 less 2**-149 plus half of that: the cut of a subnormal, and of one that vanishes."""
    one = 0x3F80
    subnormal = rounding.encode(2.0**-130, BF16.index, 0, 0)
    assert _single([subnormal], [one], 0) == rounding.encode(2.0**-130, F32.index, 0, 0)
    tiny = rounding.encode(2.0**-76, BF16.index, 0, 0)
    assert _single([tiny], [tiny], 0) == 0
    assert _single([tiny | 0x8000], [tiny], 0) == 0


def test_f16_accumulators_follow_the_rule() -> None:
    rng = np.random.default_rng(3)
    a, b = (_random_codes(rng, F16, (4, 16), 8) for _ in range(2))
    c = _random_codes(rng, F16, (4, 4), 8)
    result = np.empty_like(c)
    dot.tile(a, b, c, result, F16.index, F16.index, 16, 25)
    for m in range(4):
        for n in range(4):
            terms = [
                (Fraction(dot.load_factor(int(x), 0)) * Fraction(dot.load_factor(int(y), 0)),
                 dot.exponent_in(int(x), 0) + dot.exponent_in(int(y), 0))
                for x, y in zip(a[m], b[n], strict=True)
            ]  # fmt: skip
            own = Fraction(rounding.decode(int(c[m, n]), 0))
            terms.append((own, dot.exponent_in(int(c[m, n]), 0)))
            quantum = Fraction(2) ** (max(exponent for value, exponent in terms if value) - 25)
            total = sum((_cut(value, quantum) for value, _ in terms), Fraction(0))
            assert result[m, n] == rounding.encode(float(total), 0, 0, 0) & 0xFFFF


def _one_element(
    row: list[int],
    column: list[int],
    start: int,
    kinds: tuple[int, int],
    sums: tuple[int, int],
    *,
    halves: bool,
) -> str:
    """Return the code of one element of m16n8k16 of 8-bit factors, added to the code `start`."""
    a, b = np.array([row], np.int64), np.zeros((1, 16, 8), np.int64)
    b[0, :, 3] = column
    result = np.full((1, 1, 8), start)
    wide = np.empty(a.shape), np.empty(b.shape)
    product(a, b, result, (*kinds, F32.index), sums, halves, wide)
    return hex(result[0, 0, 3])


def test_a_subnormal_factor_keeps_its_exponent_beside_another_format() -> None:
    """One element of m16n8k16 e4m3 x e5m2 on sm_89, as MMA-Sim has it.

    With 0x03 (e4m3, subnormal: -6) taken for normal (-8) it would be 0xbfa0b000.
    """
    row = [0x8D, 0x05, 0x03, 0x12, 0x11, 0x3A, 0x31, 0x83,
           0x23, 0x24, 0x03, 0x12, 0x27, 0x03, 0x82, 0x07]  # fmt: skip
    column = [0xAE, 0x34, 0x2D, 0x37, 0x9B, 0x1D, 0x14, 0x59,
              0x15, 0x1C, 0x9C, 0x36, 0xAC, 0x46, 0xA1, 0xCF]  # fmt: skip
    kinds = (E4M3.index, E5M2.index)
    found = _one_element(row, column, 0xB8B0E257, kinds, (16, 13), halves=False)
    assert found == "0xbfa0c000"


@pytest.mark.parametrize(("architecture", "code"), [(90, "0xc64cf2f8"), (120, "0xc64cf2f7")])
def test_sixteen_products_of_8_bit_factors_are_one_step_on_sm_120(
    architecture: int, code: str
) -> None:
    """One element of m16n8k16 e4m3 x e4m3; sm_120 is MMA-Sim's, sm_90 runs two f16 steps."""
    row = [0xCE, 0x05, 0xCE, 0x78, 0x83, 0xA1, 0x49, 0xFA,
           0x0D, 0x47, 0x62, 0x92, 0x68, 0x21, 0x0B, 0x00]  # fmt: skip
    column = [0x4E, 0x31, 0xBC, 0x42, 0x6A, 0xEE, 0x3C, 0xD8,
              0x7D, 0x97, 0xD3, 0x08, 0xF9, 0x64, 0x95, 0x1C]  # fmt: skip
    rule = dot.instruction_rule(architecture, 1, 16)
    kinds, sums = (E4M3.index, E4M3.index), (rule.block, rule.fraction_bits)
    assert _one_element(row, column, 0xC0ABD4D1, kinds, sums, halves=rule.halves) == code

"""Conversions to and from floats of 4, 6 and 8 bits, and scales, as the PTX manual has them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.errors import MachineError
from ptxsan.findings import Kind
from ptxsan.launch import Buffer
from ptxsan_fuzz.execute import run_text
from ptxsan_support.ptx import buffer_of, execute, kernel

pytest.importorskip("numba")
_THEIRS: dict[str, Any] = {
    "e2m1": ml_dtypes.float4_e2m1fn, "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_NAN = {"e2m1": 0x7, "e2m3": 0x1F, "e3m2": 0x1F, "e4m3": 0x7F, "e5m2": 0x7F}
_LARGEST = {"e2m1": 6.0, "e2m3": 7.5, "e3m2": 28.0, "e4m3": 448.0, "e5m2": 57344.0}
_SLOT = {"e2m1": 4}
_SMALL = sorted(_THEIRS)


def _floats(count: int) -> NDArray[np.float32]:
    """Return numbers of every size that matters, ties, zeros, infinities and NaN among them."""
    random = np.random.default_rng(count)
    sizes = 2.0 ** random.integers(-20, 18, count)
    found = (random.standard_normal(count) * sizes).astype(np.float32)
    found[::3] = random.integers(-64, 65, found[::3].size) / np.float32(8)  # exact, or a tie
    found[1:60:6] = [np.inf, -np.inf, np.nan, 0, -0.0, 2.0**-127, 2.0**-126, 3e38, -3e38, 1e-45]
    return found


def _codes(values: NDArray[np.float64], name: str, *, relu: bool = False) -> NDArray[np.uint32]:
    """Return the codes of values rounded to nearest, saturated."""
    values = np.where(relu & (np.signbit(values)) & ~np.isnan(values), 0.0, values)
    limit = _LARGEST[name]
    clipped = np.clip(np.nan_to_num(values, nan=0.0, posinf=limit, neginf=-limit), -limit, limit)
    with np.errstate(all="ignore"):
        codes = clipped.astype(_THEIRS[name]).view(np.uint8).astype(np.uint32)
    return np.where(np.isnan(values), _NAN[name], codes).astype(np.uint32)


def _run(text: str, given: NDArray[Any], words: int) -> NDArray[np.uint32]:
    """Run instructions on `words` words of each of 128 threads in %r2...; their result is %r1."""
    loads = "".join(f"ld.global.b32 %r{2 + at}, [%rd1+{4 * at}];\n" for at in range(words))
    body = (
        f"mul.wide.u32 %rd3, %r1, {4 * words}; add.u64 %rd1, %rd1, %rd3;\n"
        f"mul.wide.u32 %rd3, %r1, 4; add.u64 %rd2, %rd2, %rd3;\n{loads}"
        + "".join(f"mov.b32 %f{2 + at}, %r{2 + at};\n" for at in range(words))
        + f"{text}\nst.global.b32 [%rd2], %r1;"
    )
    module = kernel(body, registers=".reg .b8 %b<4>;").replace("sm_90a", "sm_100a")
    return run_text(module, "k", given, 1, (1, 128)).ravel()


def _packed(codes: NDArray[np.uint32], slot: int) -> NDArray[np.uint32]:
    """Return codes [threads, elements] in slots, the first element in the uppermost one."""
    word = np.zeros(codes.shape[0], np.uint32)
    for column in codes.T:
        word = word << np.uint32(slot) | column
    return word


def _result(name: str, count: int = 2) -> tuple[str, str]:
    """Return the register of a packed result, and what moves it to %r1."""
    width = count * _SLOT.get(name, 8)
    if width == 8:
        return "%b1", "mov.b32 %r1, {%b1, %b2, %b2, %b2};"
    if width == 16:
        return "%h1", "cvt.u32.u16 %r1, %h1;"
    return "%r1", ""


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("name", _SMALL)
def test_two_floats_become_a_pair(name: str, relu: str) -> None:
    given = _floats(256).reshape(128, 2)
    to, move = _result(name)
    zero = "mov.b16 {%b2, %b3}, 0;"
    text = f"{zero}cvt.rn.satfinite{relu}.{name}x2.f32 {to}, %f2, %f3;{move}"
    expected = _codes(given.astype(np.float64), name, relu=bool(relu))
    np.testing.assert_array_equal(_run(text, given, 2), _packed(expected, _SLOT.get(name, 8)))


@pytest.mark.parametrize("source", ["f16x2", "bf16x2"])
@pytest.mark.parametrize("name", _SMALL)
def test_a_pair_of_halves_becomes_a_pair(name: str, source: str) -> None:
    kind = np.float16 if source == "f16x2" else ml_dtypes.bfloat16
    with np.errstate(all="ignore"):
        halves = _floats(256).astype(kind).reshape(128, 2)
    to, move = _result(name)
    text = f"mov.b16 {{%b2, %b3}}, 0; cvt.rn.satfinite.{name}x2.{source} {to}, %r2;{move}"
    codes = _codes(halves[:, ::-1].astype(np.float64), name)  # the upper half comes first
    np.testing.assert_array_equal(_run(text, halves, 1), _packed(codes, _SLOT.get(name, 8)))


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("to", ["f16x2", "bf16x2"])
@pytest.mark.parametrize("name", _SMALL)
def test_every_pair_becomes_halves(name: str, to: str, relu: str) -> None:
    bits = _SLOT.get(name, 6 if name in ("e2m3", "e3m2") else 8)
    random = np.random.default_rng(bits)
    codes = random.integers(0, 1 << bits, (128, 2)).astype(np.uint32)
    codes[: min(128, 1 << bits), 0] = np.arange(min(128, 1 << bits))
    given = _packed(codes, _SLOT.get(name, 8))
    take = "mov.b32 {%b1, %b2, %b2, %b2}, %r2;" if name == "e2m1" else "cvt.u16.u32 %h1, %r2;"
    where = "%b1" if name == "e2m1" else "%h1"
    found = _run(f"{take}cvt.rn{relu}.{to}.{name}x2 %r1, {where};", given, 1)
    kind = np.float16 if to == "f16x2" else ml_dtypes.bfloat16
    with np.errstate(all="ignore"):
        values = codes.astype(np.uint8).view(_THEIRS[name]).astype(np.float64)
        values = np.where(bool(relu) & np.signbit(values) & ~np.isnan(values), 0.0, values)
        halves = values.astype(kind).view(np.uint16).astype(np.uint32)
    halves[np.isnan(values)] = 0x7FFF
    np.testing.assert_array_equal(found, _packed(halves, 16))


def _scale(value: float, *, up: bool, saturates: bool) -> int:
    """Return the ue8m0 code of |value|, by comparing it with every power of two."""
    if np.isnan(value):
        return 255
    powers = [2.0 ** (code - 127) for code in range(256)]
    size = abs(value)
    if up:
        code = next((at for at, power in enumerate(powers[:255]) if power >= size), 255)
    else:
        code = max((at for at, power in enumerate(powers[:255]) if power <= size), default=0)
        code = 255 if np.isinf(size) else code
    return min(code, 254) if saturates else code


@pytest.mark.parametrize("saturates", ["", ".satfinite"])
@pytest.mark.parametrize("mode", ["rz", "rp"])
@pytest.mark.parametrize("source", ["f32", "bf16x2"])
def test_a_scale_is_a_power_of_two(source: str, mode: str, saturates: str) -> None:
    given: NDArray[Any] = _floats(256).reshape(128, 2)
    if source == "f32":
        operands, words, ordered = "%f2, %f3", 2, given
    else:
        given = given.astype(ml_dtypes.bfloat16)
        operands, words, ordered = "%r2", 1, given[:, ::-1]
    text = f"cvt.{mode}{saturates}.ue8m0x2.{source} %h1, {operands}; cvt.u32.u16 %r1, %h1;"
    codes = np.array(
        [[_scale(float(one), up=mode == "rp", saturates=bool(saturates)) for one in row]
         for row in ordered], np.uint32,
    )  # fmt: skip
    np.testing.assert_array_equal(_run(text, given, words), _packed(codes, 8))


def test_every_scale_becomes_a_bf16() -> None:
    codes = np.arange(256, dtype=np.uint32).reshape(128, 2)
    found = _run("cvt.u16.u32 %h1, %r2; cvt.rn.bf16x2.ue8m0x2 %r1, %h1;", _packed(codes, 8), 1)
    values = codes.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    halves = values.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32)
    halves[codes == 255] = 0x7FFF
    np.testing.assert_array_equal(found, _packed(halves, 16))


@pytest.mark.parametrize("scaled", [False, True])
def test_fixed_point_becomes_bf16_times_a_scale_of_its_own(scaled: bool) -> None:
    """s2f6: two's complement in units of 2^-6, as CuTe DSL turns 8-bit integers into bf16."""
    codes = np.arange(256, dtype=np.uint32).reshape(128, 2)
    scales = np.random.default_rng(5).integers(100, 140, (128, 2)).astype(np.uint32)
    given = np.stack([_packed(codes, 8), _packed(scales, 8)], 1).astype(np.uint32)
    form, last = (".scaled::n2::ue8m0", ", %h2") if scaled else ("", "")
    text = "cvt.u16.u32 %h1, %r2; cvt.u16.u32 %h2, %r3;"
    found = _run(f"{text}cvt.rn.satfinite{form}.bf16x2.s2f6x2 %r1, %h1{last};", given, 2)
    values = codes.astype(np.uint8).view(np.int8) / 64
    values = values * 2.0 ** (scales.astype(int) - 127) if scaled else values
    halves = values.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32)
    np.testing.assert_array_equal(found, _packed(halves, 16))


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_random_bits_round_up_where_they_carry(name: str) -> None:
    random = np.random.default_rng(3)
    given = np.empty((128, 3), np.uint32)
    given[:, :2] = (random.standard_normal((128, 2)) * 8).astype(np.float32).view(np.uint32)
    given[:, 2] = random.integers(0, 1 << 32, 128)
    discarded = 13 if name == "f16" else 16  # of the fraction of a normal number
    expected = []
    for at, place in ((0, 16), (1, 0)):
        bits = given[:, 2] >> place & (1 << discarded) - 1
        raised = (given[:, at] + bits) >> discarded << discarded
        kind = np.float16 if name == "f16" else ml_dtypes.bfloat16
        expected.append(raised.view(np.float32).astype(kind).view(np.uint16).astype(np.uint32))
    found = _run(f"cvt.rs.{name}x2.f32 %r1, %f2, %f3, %r4;", given, 3)
    np.testing.assert_array_equal(found, expected[0] << 16 | expected[1])


def test_random_rounding_saturates_and_leaves_exact_numbers() -> None:
    given = np.empty((128, 3), np.uint32)
    given[:, 0] = np.float32(1e6).view(np.uint32)
    given[:, 1] = np.float32(-1.5).view(np.uint32)
    given[:, 2] = 0xFFFFFFFF
    found = _run("cvt.rs.satfinite.f16x2.f32 %r1, %f2, %f3, %r4;", given, 3)
    assert set(found.tolist()) == {0x7BFF << 16 | 0xBE00}
    found = _run("cvt.rs.relu.f16x2.f32 %r1, %f2, %f3, %r4;", given, 3)
    assert set(found.tolist()) == {0x7C00 << 16}


def test_random_bits_of_four_elements_are_refused() -> None:
    text = "cvt.rs.satfinite.e2m1x4.f32 %h1, {%f2, %f3, %f4, %f5}, %r6;"
    with pytest.raises(MachineError, match=r"is not covered \(\.rs\)"):
        _run(text, np.zeros((128, 5), np.uint32), 5)


@pytest.mark.parametrize(
    ("pair", "store", "is_found"),
    [
        ("cvt.rn.satfinite.e2m3x2.f16x2 %h1, %r2;", "st.global.b8 [%rd2], %h1;", False),
        ("cvt.rn.satfinite.e2m3x2.f16x2 %h1, %r2;", "st.global.b16 [%rd2], %h1;", True),
        ("cvt.rz.ue8m0x2.bf16x2 %h1, %r2;", "st.global.b8 [%rd2], %h1;", False),
        ("cvt.rz.ue8m0x2.bf16x2 %h1, %r2;", "st.global.b16 [%rd2], %h1;", True),
        ("cvt.rn.satfinite.e2m1x2.f16x2 %b1, %r2;", "st.global.b8 [%rd2], %b1;", True),
    ],
)  # fmt: skip
def test_what_comes_from_memory_that_nobody_wrote_is_told_by_byte(
    pair: str, store: str, is_found: bool
) -> None:
    flags = np.array([True, True, False, False])
    half_written = Buffer(
        name="x", data=buffer_of(np.full(1, 0x3C003C00, np.uint32)).data, initialised=flags
    )
    text = kernel(f"ld.global.b32 %r2, [%rd1];\n{pair}\n{store}", registers=".reg .b8 %b<4>;")
    outcome = execute(text, half_written, buffer_of(np.zeros(1, np.uint32)), block=1)
    assert (Kind.UNINITIALISED in {one.kind for one in outcome.findings}) == is_found

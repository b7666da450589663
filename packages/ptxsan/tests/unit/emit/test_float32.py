"""Arithmetic of sm_100 on two f32 in one register, extremes of three numbers and of a warp."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.findings import Kind
from ptxsan.launch import Buffer
from ptxsan_fuzz.execute import run_text
from ptxsan_support.ptx import buffer_of, execute, kernel

pytest.importorskip("numba")
_THREE = "ld.global.v2.b64 {%rd3, %rd4}, [%rd1]; ld.global.b64 %rd5, [%rd1+16];"


def _run(text: str, given: np.ndarray) -> np.ndarray:
    """Run instructions on three pairs of each of 64 threads in %rd3...; the result is %rd6."""
    body = (
        "mul.wide.u32 %rd7, %r1, 32; add.u64 %rd1, %rd1, %rd7;\n"
        f"mul.wide.u32 %rd7, %r1, 8; add.u64 %rd2, %rd2, %rd7;\n{_THREE}\n{text}\n"
        "st.global.b64 [%rd2], %rd6;"
    )
    return run_text(kernel(body), "k", given, 2, (1, 64)).view(np.float32)


@pytest.mark.parametrize(
    ("opcode", "count"),
    [("add.rn.f32x2", 2), ("sub.rz.f32x2", 2), ("mul.f32x2", 2), ("fma.rn.ftz.f32x2", 3)],
)
def test_a_pair_is_computed_as_two_numbers_are(opcode: str, count: int) -> None:
    random = np.random.default_rng(count)
    given = random.standard_normal((64, 8)) * 2.0 ** random.integers(-70, 70, (64, 8))
    given = given.astype(np.float32)
    given[0] = [np.inf, -np.inf, np.inf, 1e-40, 1, np.nan, 0, 0]
    names = ", ".join(f"%rd{3 + at}" for at in range(count))
    found = _run(f"{opcode} %rd6, {names};", given)
    alone = "mov.b64 {%f1, %f2}, %rd3; mov.b64 {%f3, %f4}, %rd4; mov.b64 {%f5, %f6}, %rd5;\n"
    for half in (0, 1):
        operands = ", ".join(f"%f{1 + half + 2 * at}" for at in range(count))
        alone += f"{opcode.replace('x2', '')} %f{7 + half}, {operands};\n"
    expected = _run(alone + "mov.b64 %rd6, {%f7, %f8};", given)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_the_result_may_be_an_operand() -> None:
    given = np.arange(512, dtype=np.float32).reshape(64, 8)
    found = _run("add.f32x2 %rd3, %rd3, %rd4; mov.b64 %rd6, %rd3;", given)
    np.testing.assert_array_equal(found, given[:, :2] + given[:, 2:4])


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("opcode", ["fma.rn.f32", "fma.rz.sat.f32", "add.f32", "sub.rm.f32"])
def test_halves_meet_an_f32_as_their_own_values(opcode: str, name: str) -> None:
    """`fma.rn.f32.bf16` of sm_100: factors of 16 bits, added to 32; CuTe DSL's RMSNorm has it."""
    random = np.random.default_rng(11)
    given = random.standard_normal((64, 8)).astype(np.float32)
    given[:4, :4] = [np.inf, -0.0, 1e-40, np.nan]
    read = "mov.b64 {%f1, %f2}, %rd3; mov.b64 {%f3, %f4}, %rd4;\n"
    read += f"cvt.rn.{name}.f32 %h1, %f1; cvt.rn.{name}.f32 %h2, %f2;\n"
    wide = f"cvt.f32.{name} %f5, %h1; cvt.f32.{name} %f6, %h2;\n"
    mixed, alone = ("%h1, %h2", "%f5, %f6") if "fma" in opcode else ("%h1", "%f5")
    end = "mov.b64 %rd6, {%f7, %f1};"
    found = _run(f"{read}{opcode}.{name} %f7, {mixed}, %f3;\n{end}", given)
    expected = _run(f"{read}{wide}{opcode} %f7, {alone}, %f3;\n{end}", given)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("opcode", ["max.f32", "min.NaN.f32"])
def test_the_extreme_of_three(opcode: str) -> None:
    random = np.random.default_rng(3)
    given = random.standard_normal((64, 8)).astype(np.float32)
    given[5, 2] = np.nan
    text = "mov.b64 {%f1, %f2}, %rd3; mov.b64 {%f3, %f4}, %rd4;\n"
    found = _run(f"{text}{opcode} %f5, %f1, %f2, %f3; mov.b64 %rd6, {{%f5, %f1}};", given)[:, 0]
    three = given[:, :3]
    expected = np.fmax.reduce(three, axis=1) if "max" in opcode else np.min(three, axis=1)
    np.testing.assert_array_equal(found, expected)


def test_half_of_a_pair_may_be_unwritten() -> None:
    flags = np.ones(24, bool)
    flags[4:8] = False
    given = Buffer(name="x", data=buffer_of(np.ones(6, np.float32)).data, initialised=flags)
    for half, is_found in ((1, False), (2, True)):
        text = f"{_THREE} add.f32x2 %rd6, %rd3, %rd4; mov.b64 {{%f1, %f2}}, %rd6;"
        outcome = execute(
            kernel(f"{text} st.global.f32 [%rd2], %f{half};"), given,
            buffer_of(np.zeros(2, np.float32)), block=1,
        )  # fmt: skip
        assert (Kind.UNINITIALISED in {one.kind for one in outcome.findings}) == is_found


@pytest.mark.parametrize("nans", [(), (3,), tuple(range(32))])
@pytest.mark.parametrize("spelt", ["max", "min", "max.NaN", "min.abs.NaN", "max.abs"])
def test_the_extreme_of_a_warp(spelt: str, nans: tuple[int, ...]) -> None:
    random = np.random.default_rng(len(spelt))
    given = np.zeros((64, 8), np.float32)
    given[:, 0] = random.standard_normal(64)
    given[7, 0] = -np.inf
    for lane in nans:
        given[lane, 0] = np.nan
    text = f"mov.b64 {{%f1, %f2}}, %rd3; redux.sync.{spelt}.f32 %f3, %f1, -1;"
    found = _run(f"{text} mov.b64 %rd6, {{%f3, %f3}};", given)[:, 0].reshape(2, 32)
    numbers = np.abs(given[:, 0]) if "abs" in spelt else given[:, 0]
    way: np.ufunc = np.maximum if "max" in spelt else np.minimum
    if "NaN" not in spelt:
        way = np.fmax if "max" in spelt else np.fmin
    expected = way.reduce(numbers.reshape(2, 32), axis=1)
    np.testing.assert_array_equal(found, np.repeat(expected[:, None], 32, axis=1))

"""The algebra: field arithmetic, residues of constants and inputs, kernels that are equal in it."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxsan import home, nvrtc
from ptxsan.equivalence import Executed, Output, equivalent
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.numerics import residues as R
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.residues import Residues
from ptxsan.run import run
from ptxsan_corpus import algebra_forms as forms
from ptxsan_corpus.algebra_running import compared

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="libnvrtc is not installed")


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let kernels be compiled anew, but not the machine's runtime: that takes half a minute."""
    monkeypatch.setenv("PTXSAN_RUNTIME", str(home.runtime_dir()))
    folder: Path = tmp_path_factory.getbasetemp() / "machine-home"
    monkeypatch.setenv("PTXSAN_CACHE", str(folder))


def constant(value: float) -> int:
    """Return the residue modulo P of a constant."""
    return R.part_p(R.of_constant(value))


def single(value: float) -> float:
    return float(np.float32(value))


def test_both_numbers_are_prime_and_two_has_the_order_q() -> None:
    assert R.P == 2 * R.Q + 1
    for prime in (R.P, R.Q):
        assert all(prime % factor for factor in range(2, math.isqrt(prime) + 1))
    assert pow(2, R.Q, R.P) == 1
    assert R.P % 4 == R.Q % 4 == 3
    for small in (2, 3, 5, 7, 11, 13, 17):
        assert pow(small, R.Q, R.P) == 1  # a square


residue = st.builds(R.pack, st.integers(0, R.P - 1), st.integers(0, R.Q - 1))


@settings(deadline=None, max_examples=50)
@given(residue, residue)
def test_arithmetic_is_that_of_whole_numbers_modulo_both_primes(x: int, y: int) -> None:
    p, q = R.part_p(x), R.part_q(x)
    r, s = R.part_p(y), R.part_q(y)
    total, product = R.added(x, y), R.multiplied(x, y)
    assert (R.part_p(total), R.part_q(total)) == ((p + r) % R.P, (q + s) % R.Q)
    assert (R.part_p(product), R.part_q(product)) == (p * r % R.P, q * s % R.Q)
    assert R.part_p(R.added(x, R.negated(x))) == 0
    if p:
        assert R.part_p(R.multiplied(x, R.inverted(x))) == 1
    assert R.part_p(R.multiplied(R.rooted(x), R.rooted(x))) in (p, (R.P - p) % R.P)


@settings(deadline=None, max_examples=50)
@given(residue, residue)
def test_exponentials_turn_sums_into_products(x: int, y: int) -> None:
    both = R.exponential(R.added(x, y), 1)
    assert R.part_p(both) == R.part_p(R.multiplied(R.exponential(x, 1), R.exponential(y, 1)))


def test_whole_exponents_give_powers_of_two() -> None:
    for whole in (-3.0, 0.0, 5.0, 40.0):
        found = R.part_p(R.exponential(R.of_constant(whole), 1))
        assert found == constant(2.0**whole)


@pytest.mark.parametrize(
    ("value", "a", "b"),
    [(0.5, 1, 2), (-3.0, -3, 1), (1 / 768, 1, 768), (1e-6, 1, 10**6), (0.1, 1, 10), (0.3, 3, 10)],
)
def test_a_constant_is_the_simplest_number_with_its_bits(value: float, a: int, b: int) -> None:
    right = a * pow(b, -1, R.P) % R.P
    assert constant(single(value)) == right
    assert constant(value) == right  # written as a double


def test_roots_and_logarithms_among_constants() -> None:
    root = constant(single(0.70710678))
    assert root * root % R.P == constant(0.5)
    assert constant(single(1.44269504)) * constant(single(0.69314718)) % R.P == 1
    assert constant(single(0.25 * 1.44269504)) * 4 % R.P == constant(single(1.44269504))
    assert constant(single(1.44269504)) != constant(single(1.4426955))


def test_inputs_are_random_by_value_and_odd() -> None:
    assert R.of_input(1, 0.3) == R.of_input(1, 0.3) != R.of_input(2, 0.3)
    assert R.of_input(1, -0.3) == R.negated(R.of_input(1, 0.3))
    assert R.of_input(1, 0.0) == R.of_constant(0.0)
    assert R.of_input(1, 1.0) == R.of_constant(1.0)
    assert R.of_input(1, math.inf) == R.of_constant(math.nan) == R.NONE


@needs_nvrtc
@pytest.mark.parametrize(
    ("family", "form"),
    [
        (forms.SOFTMAX, "online"),
        (forms.SOFTMAX, "no_maximum"),
        (forms.RMSNORM, "two_kernels"),
        (forms.LAYERNORM, "welford"),
        (forms.MATMUL, "tensor_cores"),
        (forms.GELU, "exponential_form"),
        (forms.REDUCE, "compensated"),
    ],
)
def test_forms_of_one_operator_are_equal(family: forms.Family, form: str) -> None:
    found = compared(family, form)
    assert (found.equal, found.first) == (found.elements, None)


@needs_nvrtc
@pytest.mark.parametrize(
    ("family", "name"),
    [
        (forms.SOFTMAX, "no_rescale"),
        (forms.SOFTMAX, "seventh_digit_of_log2e"),
        (forms.RMSNORM, "epsilon_in_the_seventh_digit"),
        (forms.LAYERNORM, "merge_without_the_distance"),
        (forms.MATMUL, "tail_tile_dropped"),
    ],
)
def test_an_algebraic_fault_is_another_expression(family: forms.Family, name: str) -> None:
    slip = next(one for one in family.faults if one.name == name)
    found = compared(family, slip.form, slip)
    assert found.equal < found.elements
    assert found.first is not None


def test_a_bound_grows_with_the_degree_and_shrinks_with_the_seeds() -> None:
    found = compared_sums()
    assert found.chance(1000) == (1000 / R.P) ** 2
    assert found.chance(10 * R.P) == 1.0


_HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1)
{
.reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .f32 %f<12>; .reg .b16 %h<8>; .reg .f64 %fd<8>;
.reg .pred %p<4>; .shared .align 4 .b8 tile[64];
ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1];
"""
# Two bf16 of one word, added up: by conversions, by shifts and masks, packed, through memory.
_PAIR = {
    "cvt": """ld.global.u16 %h1, [%rd1]; ld.global.u16 %h2, [%rd1+2];
        cvt.f32.bf16 %f1, %h1; cvt.f32.bf16 %f2, %h2; add.f32 %f3, %f1, %f2;""",
    "masks": """ld.global.b32 %r1, [%rd1]; shl.b32 %r2, %r1, 16; and.b32 %r3, %r1, 0xffff0000;
        mov.b32 %f1, %r2; mov.b32 %f2, %r3; add.f32 %f3, %f2, %f1;""",
    "vector": """ld.global.b32 %r1, [%rd1]; mov.b32 {%h1, %h2}, %r1; mov.b32 %r2, {0, %h1};
        mov.b32 %r3, {0, %h2}; mov.b32 %f1, %r2; mov.b32 %f2, %r3; add.f32 %f3, %f1, %f2;""",
    "joined": """ld.global.u16 %h1, [%rd1]; ld.global.u16 %h2, [%rd1+2]; cvt.u32.u16 %r1, %h1;
        cvt.u32.u16 %r2, %h2; shl.b32 %r3, %r2, 16; or.b32 %r4, %r1, %r3;
        mov.b32 {%h3, %h4}, %r4; cvt.f32.bf16 %f1, %h3; cvt.f32.bf16 %f2, %h4;
        add.f32 %f3, %f1, %f2;""",
    "shared": """ld.global.b32 %r1, [%rd1]; st.shared.b32 [tile], %r1; ld.shared.u16 %h1, [tile];
        ld.shared.u16 %h2, [tile+2]; cvt.f32.bf16 %f1, %h1; cvt.f32.bf16 %f2, %h2;
        add.f32 %f4, %f1, %f1; st.shared.f32 [tile+8], %f4; ld.shared.f32 %f5, [tile+8];
        fma.rn.f32 %f3, %f5, 0f3F000000, %f2;""",
    "doubles": """ld.global.u16 %h1, [%rd1]; ld.global.u16 %h2, [%rd1+2]; cvt.f32.bf16 %f1, %h1;
        cvt.f32.bf16 %f2, %h2; cvt.f64.f32 %fd1, %f1; cvt.f64.f32 %fd2, %f2;
        div.rn.f64 %fd3, %fd2, 0d4008000000000000; fma.rn.f64 %fd4, %fd3, 0d4008000000000000, %fd1;
        cvt.rn.f32.f64 %f3, %fd4;""",
    "signs": """ld.global.b32 %r1, [%rd1]; xor.b32 %r2, %r1, 0x80008000; mov.b32 {%h1, %h2}, %r2;
        cvt.f32.bf16 %f1, %h1; cvt.f32.bf16 %f2, %h2; neg.f32 %f4, %f1; mov.b32 %r5, %f2;
        xor.b32 %r6, %r5, 0x80000000; mov.b32 %f5, %r6; add.f32 %f3, %f4, %f5;""",
    "chosen": """ld.global.u16 %h1, [%rd1]; ld.global.u16 %h2, [%rd1+2]; cvt.f32.bf16 %f1, %h1;
        cvt.f32.bf16 %f2, %h2; max.f32 %f4, %f1, %f2; min.f32 %f5, %f1, %f2;
        setp.lt.f32 %p1, %f1, %f2; selp.f32 %f6, %f4, %f5, %p1; sub.f32 %f7, %f6, %f2;
        add.f32 %f8, %f7, %f2; selp.f32 %f9, %f5, %f4, %p1; add.f32 %f3, %f8, %f9;""",
}


def execution(body: str):  # type: ignore[no-untyped-def]
    """Return what runs a body that leaves %f3 on two bf16 numbers."""
    module = parse(f"{_HEAD}{body}\nst.global.f32 [%rd2], %f3; ret;\n}}")

    def execute(residues: Residues) -> Executed:
        data = np.frombuffer(struct.pack("<ff", 1.7, -0.3), np.uint16)[1::2].copy()
        x = Buffer(name="x", data=data.view(np.uint8))
        y = Buffer(name="y", data=np.zeros(4, np.uint8))
        launch = Launch(
            kernel="k", grid=(1, 1, 1), block=(1, 1, 1),
            arguments=(Pointer(buffer=x), Pointer(buffer=y)),
        )  # fmt: skip
        report = run(module, launch, options=Options(shadow=residues, races=False))
        assert report.inconclusive is None, report.inconclusive
        place = np.zeros(1, np.int64)
        output = Output(name="y", buffer=y, type="f32", offsets=place, width=4)
        return Executed(outputs=(output,), roots=False)

    return execute


def compared_sums(body: str = _PAIR["masks"]):  # type: ignore[no-untyped-def]
    return equivalent(execution(_PAIR["cvt"]), execution(body))


@pytest.mark.parametrize("name", sorted(_PAIR))
def test_residues_follow_halves_on_every_way(name: str) -> None:
    assert compared_sums(_PAIR[name]).equal == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0xffff0000", "0xfffe0000"),
        ("add.f32 %f3", "sub.f32 %f3"),
        ("shl.b32 %r2, %r1, 16", "mov.b32 %r2, 0"),
    ],
)
def test_a_lost_half_is_another_expression(old: str, new: str) -> None:
    assert compared_sums(_PAIR["masks"].replace(old, new)).equal == 0


def test_more_stored_values_than_the_table_holds_decide_nothing() -> None:
    small = Residues(seed=1)
    small.table[1] = 4  # the limit
    module = parse(f"{_HEAD}{_PAIR['cvt']}\nst.global.f32 [%rd2], %f3; ret;\n}}")
    data = np.ones(2, np.uint16).view(np.uint8)
    x, y = Buffer(name="x", data=data), Buffer(name="y", data=np.zeros(4, np.uint8))
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(1, 1, 1),
        arguments=(Pointer(buffer=x), Pointer(buffer=y)),
    )  # fmt: skip
    report = run(module, launch, options=Options(shadow=small, races=False))
    assert report.inconclusive is not None
    assert "residues" in report.inconclusive


def test_outputs_of_different_shapes_are_refused() -> None:
    def shorter(residues: Residues) -> Executed:
        made = execution(_PAIR["cvt"])(residues)
        (output,) = made.outputs
        none = Output(
            name="y", buffer=output.buffer, type="f32", offsets=output.offsets[:0], width=4
        )
        return Executed(outputs=(none,), roots=False)

    with pytest.raises(ValueError, match="1 elements of f32"):
        equivalent(execution(_PAIR["cvt"]), shorter)

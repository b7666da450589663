"""Blame: planted precision bugs and their correct twins, as PTX."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ptxsan.findings import Kind, MachineFinding, MachineReport
from ptxsan.launch import Buffer
from ptxsan_support.ptx import buffer_of, execute, kernel

_RNG = np.random.default_rng(0)
_ONES = np.full(32 * 1024, 1.0 + 2.0**-7, np.float32)


def _precision(report: MachineReport) -> list[MachineFinding]:
    assert report.inconclusive is None
    return [one for one in report.findings if one.kind is Kind.PRECISION]


def _zeros(count: int, dtype: type = np.float32) -> Buffer:
    return buffer_of(np.zeros(count, dtype), "output")


def _loop(step: str, *, before: str, after: str, count: int = 1024) -> str:
    """Each thread walks over `count` f32 of its own row."""
    return kernel(
        f"{before}\nmov.u32 %r2, 0; mad.wide.u32 %rd1, %r1, {4 * count}, %rd1;\n"
        f"L: ld.global.f32 %f3, [%rd1];\n{step}\nadd.u64 %rd1, %rd1, 4; add.u32 %r2, %r2, 1;\n"
        f"setp.lt.u32 %p1, %r2, {count}; @%p1 bra L;\nmad.wide.u32 %rd2, %r1, 4, %rd2;\n{after}"
    )


def test_a_sum_in_bf16_is_blamed_with_its_lost_bits() -> None:
    text = _loop(
        "cvt.rn.bf16.f32 %h2, %f3; add.rn.bf16 %h1, %h1, %h2;",
        before="mov.b16 %h1, 0;",
        after="st.global.b16 [%rd2], %h1;",
    )
    (finding,) = _precision(execute(text, buffer_of(_ONES), _zeros(32)))
    assert "`add.rn.bf16`: accumulates in bf16, loses" in finding.text
    assert finding.measures["additions"] == 1024
    assert finding.measures["lost_bits"] > 4


def test_a_sum_in_f32_with_one_cast_to_bf16_is_clean() -> None:
    text = _loop(
        "add.f32 %f1, %f1, %f3;",
        before="mov.f32 %f1, 0f00000000;",
        after="cvt.rn.bf16.f32 %h1, %f1; st.global.b16 [%rd2], %h1;",
    )
    assert _precision(execute(text, buffer_of(_ONES), _zeros(32))) == []


def _atomics(kind: str) -> str:
    """Thirty-two lanes add 1 + 2**-7 to one cell, 64 times each."""
    bf16 = kind == "noftz.bf16"
    load = "cvt.rn.bf16.f32 %h1, %f1;" if bf16 else ""
    register = "%h1" if bf16 else "%f1"
    return kernel(
        f"ld.global.f32 %f1, [%rd1]; {load} mov.u32 %r2, 0;\n"
        f"L: red.global.add.{kind} [%rd2], {register};\n"
        "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 64; @%p1 bra L;"
    )


def test_an_atomic_sum_in_bf16_is_blamed() -> None:
    (finding,) = _precision(execute(_atomics("noftz.bf16"), buffer_of(_ONES[:32]), _zeros(1)))
    assert "`red.global.add.noftz.bf16`" in finding.text
    assert "2,048 additions" in finding.text


def test_a_sum_that_another_instruction_began_has_no_count_of_additions() -> None:
    begun = _atomics("noftz.bf16").replace(
        "L: red", "red.global.add.noftz.bf16 [%rd2], %h1;\nL: red"
    )
    report = execute(begun, buffer_of(_ONES[:32]), _zeros(1))
    late = next(one for one in _precision(report) if "additions" not in one.measures)
    assert "accumulates in bf16" in late.text
    assert "additions" not in late.text
    assert late.measures["lost_bits"] > 4


def test_an_atomic_sum_in_f32_is_clean() -> None:
    assert _precision(execute(_atomics("f32"), buffer_of(_ONES[:32]), _zeros(1))) == []


_VARIANCE = _loop(
    "add.f32 %f1, %f1, %f3; fma.rn.f32 %f2, %f3, %f3, %f2;",
    before="mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000;",
    after=(
        "mul.f32 %f1, %f1, 0f3A800000; mul.f32 %f2, %f2, 0f3A800000; mul.f32 %f4, %f1, %f1;\n"
        "sub.f32 %f5, %f2, %f4; st.global.f32 [%rd2], %f5;"
    ),
)


def test_cancellation_is_blamed_at_the_subtraction() -> None:
    """The variance as a difference of squares, at mean 1 000."""
    far = (_RNG.standard_normal(32 * 1024) + 1000).astype(np.float32)
    (finding,) = _precision(execute(_VARIANCE, buffer_of(far), _zeros(32)))
    assert "`sub.f32`: amplifies (cancellation)" in finding.text


def test_the_same_variance_of_centred_numbers_is_clean() -> None:
    near = _RNG.standard_normal(32 * 1024).astype(np.float32)
    assert _precision(execute(_VARIANCE, buffer_of(near), _zeros(32))) == []


def _softmax(*, subtract_maximum: bool) -> str:
    def reduce(operation: str, register: str) -> str:
        return "\n".join(
            f"mov.b32 %r3, {register}; shfl.sync.bfly.b32 %r4, %r3, {lane}, 31, -1;\n"
            f"mov.b32 %f9, %r4; {operation}.f32 {register}, {register}, %f9;"
            for lane in (16, 8, 4, 2, 1)
        )

    largest = f"mov.f32 %f4, %f1; {reduce('max', '%f4')} sub.f32 %f1, %f1, %f4;"
    return kernel(
        "mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;\n"
        f"ld.global.f32 %f1, [%rd1]; {largest if subtract_maximum else ''}\n"
        f"mul.f32 %f1, %f1, 0f3FB8AA3B; ex2.approx.f32 %f2, %f1; mov.f32 %f3, %f2;\n"
        f"{reduce('add', '%f3')} div.rn.f32 %f5, %f2, %f3; st.global.f32 [%rd2], %f5;"
    )


_LOGITS = (100 * _RNG.standard_normal(32)).astype(np.float32)


def test_infinities_are_traced_to_where_they_are_born() -> None:
    report = execute(_softmax(subtract_maximum=False), buffer_of(_LOGITS), _zeros(32))
    (finding,) = _precision(report)
    assert "`ex2.approx.f32`" in finding.text
    assert "infinite or NaN although their exact value is finite" in finding.text


def test_a_softmax_that_subtracts_its_maximum_is_clean() -> None:
    report = execute(_softmax(subtract_maximum=True), buffer_of(_LOGITS), _zeros(32))
    assert _precision(report) == []


def test_an_infinity_that_is_swallowed_is_no_finding() -> None:
    """tanh as 1 - 2 / (exp(2 x) + 1): exp overflows and the result is still right."""
    text = kernel(
        "mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;\n"
        "ld.global.f32 %f1, [%rd1]; mul.f32 %f1, %f1, 0f4038AA3B; ex2.approx.f32 %f2, %f1;\n"
        "add.f32 %f2, %f2, 0f3F800000; rcp.rn.f32 %f3, %f2;\n"
        "fma.rn.f32 %f4, %f3, 0fC0000000, 0f3F800000; st.global.f32 [%rd2], %f4;"
    )
    assert _precision(execute(text, buffer_of(_LOGITS), _zeros(32))) == []


def test_rounding_by_a_large_constant_is_meant() -> None:
    """exp splits its argument with an addition of 1.5 * 2**23."""
    text = kernel(
        "mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;\n"
        "ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, 0f4B400000; sub.f32 %f3, %f2, 0f4B400000;\n"
        "sub.f32 %f4, %f1, %f3; ex2.approx.f32 %f5, %f4; st.global.f32 [%rd2], %f5;"
    )
    assert _precision(execute(text, buffer_of(_LOGITS), _zeros(32))) == []


def test_bf16_elementwise_arithmetic_is_clean() -> None:
    given = _RNG.standard_normal(64).astype(ml_dtypes.bfloat16)
    text = kernel(
        "mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;\n"
        "ld.global.b32 %r2, [%rd1]; fma.rn.bf16x2 %r3, %r2, %r2, %r2;\n"
        "fma.rn.bf16x2 %r4, %r3, %r2, %r3; st.global.b32 [%rd2], %r4;"
    )
    assert _precision(execute(text, buffer_of(given.view(np.uint16)), _zeros(32))) == []


def test_results_of_one_magnitude_are_told() -> None:
    body = """mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
sub.f32 %f2, %f1, %f1; mul.f32 %f6, %f2, %f1;
add.f32 %f3, %f2, 0f40400000; add.f32 %f4, %f1, 0f40400000;
mul.f32 %f5, %f1, 0f7F800000; add.s64 %rd5, %rd2, %rd3; st.global.f32 [%rd5], %f4;"""
    given = buffer_of(np.arange(1, 33, dtype=np.float32))
    report = execute(kernel(body), given, _zeros(32))
    assert all(one.only is None for one in report.sites if one.opcode != "add.f32")
    assert [one.only for one in report.sites if one.opcode == "add.f32"] == [3.0, None]

"""Kernels of thousands of instructions in a row: made in time that follows their length."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.codegen import generate
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan_support.ptx import buffer_of, execute, kernel

_QUICK = Options(shadow=False, races=False, optimise=False)
_LENGTH = 3000


def _row(length: int) -> str:
    """Return PTX that adds 1 to a float `length` times, in registers of their own."""
    adds = "\n".join(f"add.f32 %x{n + 1}, %x{n}, 0f3F800000;" for n in range(length))
    return kernel(
        "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"
        f"ld.global.f32 %x0, [%rd4];\n{adds}\nst.global.f32 [%rd5], %x{length};",
        registers=f".reg .f32 %x<{length + 1}>;",
    )


@pytest.mark.parametrize("optimise", [False, True])
def test_a_long_row_computes_what_it_says(optimise: bool) -> None:
    given = np.arange(32, dtype=np.float32)
    left = buffer_of(np.zeros(32, np.float32), "left")
    options = Options(shadow=False, races=False, optimise=optimise)
    report = execute(_row(_LENGTH), buffer_of(given), left, options=options)
    assert report.findings == ()
    assert report.inconclusive is None
    assert np.array_equal(left.data.view(np.float32), given + _LENGTH)


def test_a_long_row_is_made_in_blocks_of_bounded_length() -> None:
    code = generate(build(parse(_row(_LENGTH)), "k"), _QUICK)
    assert code.is_parted
    assert code.ir.count("\npart.") == _LENGTH // 512
    assert not generate(build(parse(_row(100)), "k"), _QUICK).is_parted


def test_only_registers_that_are_read_before_they_are_written_have_a_value_at_the_start() -> None:
    body = "@%p1 mov.u32 %r2, 7; add.u32 %r3, %r2, %r1; st.global.u32 [%rd1], %r3;"
    code = generate(build(parse(kernel(body)), "k"), _QUICK).ir
    start = code.split("start:\n")[1].split("\nL.")[0].split("br label")[0]
    cleared = [one for one in start.splitlines() if "store i32 0" in one]
    assert len(cleared) == 1  # %r2, which the predicate may leave as it was


@pytest.mark.parametrize("optimise", [False, True])
def test_a_launch_tells_what_came_out_of_comparisons(optimise: bool) -> None:
    body = """setp.lt.u32 %p1, %r1, 20;
setp.lt.s32 %p2, %r1, 99;
setp.eq.s32 %p3, %r1, 77;
@%p3 setp.eq.s32 %p4, %r1, 5;
min.s32 %r2, %r1, 5;
min.s32 %r1, %r1, 40;
max.s32 %r3, %r1, -1;
min.s32 %r4, %r1, %r1;
mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], %r2;"""
    a, b = (buffer_of(np.zeros(32, np.uint32), name) for name in "ab")
    options = Options(shadow=False, races=False, optimise=optimise)
    report = execute(kernel(body), a, b, options=options)
    assert report.inconclusive is None
    assert list(report.statistics.outcomes.values()) == [
        {False, True}, {True}, {False}, set(), {False, True}, {True}, {False}, set(),
    ]  # fmt: skip

"""Lines of a kernel: which ran, what they cost, and how far off their results were."""

from __future__ import annotations

import numpy as np

from ptxsan.api import Report
from ptxsan.tracing import rows
from ptxsan_support.ptx import buffer_of, execute, kernel

_PTX = kernel(
    "setp.gt.u32 %p1, %r1, 999; @%p1 bra NEVER;\n"
    "mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd1, %rd3;\n"
    "ld.global.f32 %f1, [%rd3];\n"
    "mul.f32 %f2, %f1, 0f3DCCCCCD;\n"
    "st.global.f32 [%rd3], %f2; bra END;\n"
    "NEVER: st.global.u32 [%rd2], %r1;\n"
    "END:"
)


def _report() -> Report:
    given = np.linspace(1, 2, 32, dtype=np.float32)
    ran = execute(_PTX, buffer_of(given, "a"), buffer_of(np.zeros(32, np.uint32), "b"))
    assert ran.findings == ()
    return Report(
        kernel="k", grid=(1, 1, 1), block=(32, 1, 1), reports=(ran,), findings=(), ptx=_PTX
    )


def test_lines_that_ran_are_told_from_those_that_did_not() -> None:
    by_text = {row.text.strip(): row for row in rows(_report())}
    assert by_text["ld.global.f32 %f1, [%rd3];"].ran
    assert not by_text["NEVER: st.global.u32 [%rd2], %r1;"].ran


def test_a_line_costs_what_its_instructions_cost_together() -> None:
    by_text = {row.text.strip(): row for row in rows(_report())}
    both = by_text["mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd1, %rd3;"]
    one = by_text["mul.f32 %f2, %f1, 0f3DCCCCCD;"]
    assert both.slots > one.slots > 0


def test_a_rounded_product_has_an_error_and_a_load_has_none() -> None:
    by_text = {row.text.strip(): row for row in rows(_report())}
    assert 0.0 < by_text["mul.f32 %f2, %f1, 0f3DCCCCCD;"].error < 1e-6
    assert by_text["ld.global.f32 %f1, [%rd3];"].error == 0.0


def test_rows_come_in_the_order_of_their_lines_each_once() -> None:
    lines = [row.line for row in rows(_report())]
    assert lines == sorted(set(lines))

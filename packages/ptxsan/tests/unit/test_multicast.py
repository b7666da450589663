"""multimem: every form against NumPy on two and three devices, and what it is refused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan import ranks
from ptxsan.errors import MachineError, UsageError
from ptxsan.findings import Kind

_HEAD = """.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 all, .param .u64 out)
{{
  .reg .b64 %rd<3>; .reg .b32 %r<9>; .reg .b16 %h<3>; .reg .f32 %f<9>; .reg .f64 %d<3>;
  .reg .pred %p;
  ld.param.u64 %rd1, [all];
  ld.param.u64 %rd2, [out];
  {body}
  ret;
}}
"""
Array = NDArray[np.generic]


def _ran(body: str, parts: list[Array], out: Array) -> ranks.Report:
    """Run `body` on the first device, with a multicast object of `parts`; `out` is its result."""
    memory = ranks.Symmetric("data", parts)
    idle = ranks.Symmetric("idle", [one.copy() for one in parts])
    text = _HEAD.format(body=body)
    # The other devices work on memory that the first one does not look at, one after another.
    steps: list[list[ranks.Step]] = []
    for number in range(len(parts)):
        held, result = (memory, out) if number == 0 else (idle, out.copy())
        call = ranks.Call("k", 1, 1, {"all": ranks.Multicast(held), "out": result})
        before, after = [ranks.Barrier()] * number, [ranks.Barrier()] * (len(parts) - number)
        steps.append([*before, call, *after])
    return ranks.check(text, steps, strict_order=True)


def _halves(values: list[float]) -> Array:
    return np.array(values, np.float16)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    ("load", "store", "kind", "reduced"),
    [
        ("add.f32 %f1", "st.global.f32 [%rd2], %f1", "float32", np.add),
        ("add.f64 %d1", "st.global.f64 [%rd2], %d1", "float64", np.add),
        ("add.u32 %r1", "st.global.u32 [%rd2], %r1", "uint32", np.add),
        ("min.s32 %r1", "st.global.u32 [%rd2], %r1", "int32", np.minimum),
        ("max.u64 %rd1", "st.global.u64 [%rd2], %rd1", "uint64", np.maximum),
        ("and.b32 %r1", "st.global.u32 [%rd2], %r1", "uint32", np.bitwise_and),
        ("xor.b64 %rd1", "st.global.u64 [%rd2], %rd1", "uint64", np.bitwise_xor),
        ("add.f16 %h1", "st.global.u16 [%rd2], %h1", "float16", np.add),
        ("max.f16 %h1", "st.global.u16 [%rd2], %h1", "float16", np.maximum),
        ("add.acc::f32.f16 %h1", "st.global.u16 [%rd2], %h1", "float16", np.add),
    ],
)
def test_a_load_reduces_what_all_devices_hold(
    load: str, store: str, kind: str, reduced: np.ufunc, count: int
) -> None:
    operation, register = load.rsplit(" ", 1)
    values = np.array([7, 9, 12][:count]).astype(kind)
    parts: list[Array] = [np.array([0, one]).astype(kind) for one in values]
    out = np.zeros(1, kind)
    at = values.dtype.itemsize
    report = _ran(
        f"multimem.ld_reduce.relaxed.sys.global.{operation} {register}, [%rd1+{at}];\n{store};",
        parts,
        out,
    )
    assert report.ok, report.text
    assert out[0] == reduced.reduce(values)


def test_pairs_and_vectors_are_reduced_element_by_element() -> None:
    parts: list[Array] = [_halves([1, 2, 3, 4]), _halves([10, 20, 30, 40])]
    out = np.zeros(4, np.float16)
    report = _ran(
        "multimem.ld_reduce.weak.global.add.v2.f16x2 {%r1, %r2}, [%rd1];\n"
        "st.global.v2.u32 [%rd2], {%r1, %r2};",
        parts,
        out,
    )
    assert report.ok, report.text
    assert out.tolist() == [11, 22, 33, 44]


def test_halves_are_added_in_single_precision_where_the_instruction_says_so() -> None:
    # 2048 + 1 is not a half, 2048 + 1 + 1 is.
    parts: list[Array] = [_halves([2048, 1]), _halves([1, 2048]), _halves([1, 1])]
    found = {}
    for how in ("", ".acc::f32"):
        out = np.zeros(2, np.float16)
        body = (
            f"multimem.ld_reduce.relaxed.gpu.global.add{how}.f16x2 %r1, [%rd1];\n"
            "st.global.u32 [%rd2], %r1;"
        )
        assert _ran(body, parts, out).ok
        found[how] = out.tolist()
    assert found == {"": [2048, 2048], ".acc::f32": [2050, 2050]}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("multimem.st.relaxed.sys.global.f32 [%rd1+4], 0f40A00000;", [[1, 5], [3, 5]]),
        ("multimem.red.relaxed.sys.global.add.f32 [%rd1], 0f40A00000;", [[6, 2], [8, 4]]),
        (
            "setp.ne.u64 %p, %rd1, %rd1;\n@%p multimem.st.global.f32 [%rd1], 0f40A00000;",
            [[1, 2], [3, 4]],
        ),
        (
            "mov.f32 %f1, 0f40A00000;\n"
            "multimem.red.release.sys.global.add.v2.f32 [%rd1], {%f1, %f1};",
            [[6, 7], [8, 9]],
        ),
    ],
)
def test_stores_and_reductions_reach_every_device(body: str, wanted: list[list[float]]) -> None:
    parts: list[Array] = [np.array([1, 2], np.float32), np.array([3, 4], np.float32)]
    report = _ran(body, parts, np.zeros(1, np.float32))
    assert report.ok, report.text
    assert [one.tolist() for one in parts] == wanted


def test_halves_are_added_in_memory() -> None:
    parts: list[Array] = [_halves([1, 2]), _halves([3, 4])]
    body = (
        "mov.b32 %r1, 0x44004200;\n"  # 3 and 4
        "multimem.red.relaxed.sys.global.add.f16x2 [%rd1], %r1;"
    )
    report = _ran(body, parts, np.zeros(1, np.float32))
    assert report.ok, report.text
    assert [one.tolist() for one in parts] == [[4, 6], [6, 8]]


def test_ordinary_accesses_and_addresses_do_not_mix_with_it() -> None:
    parts: list[Array] = [np.zeros(2, np.float32), np.zeros(2, np.float32)]
    for body in (
        "ld.global.f32 %f1, [%rd1];\nst.global.f32 [%rd2], %f1;",
        "multimem.st.relaxed.sys.global.f32 [%rd2], 0f40A00000;",
        "multimem.st.relaxed.sys.global.f32 [%rd1+8], 0f40A00000;",
    ):
        report = _ran(body, parts, np.zeros(1, np.float32))
        assert {one.kind for one in report.wrong} == {Kind.OUT_OF_BOUNDS}, report.text


def test_forms_and_memory_that_it_has_not_are_refused() -> None:
    parts: list[Array] = [np.zeros(2, np.float32), np.zeros(2, np.float32)]
    with pytest.raises(MachineError, match="is a form of multimem that the machine does not"):
        _ran(
            "multimem.ld_reduce.relaxed.sys.global.add.v4.e4m3x4 {%r1, %r2, %r3, %r4}, [%rd1];",
            parts,
            np.zeros(1, np.float32),
        )
    with pytest.raises(UsageError, match="'data' has arrays of different sizes"):
        _ran("ret;", [parts[0], np.zeros(3, np.float32)], np.zeros(1, np.float32))

"""A kernel made ready: places of its variables and parameters, and what it does at all."""

from __future__ import annotations

import itertools

import pytest

from ptxsan.errors import MachineError
from ptxsan.parser import parse
from ptxsan.program import BESIDE, FUNCTION_WINDOW, Program, build
from ptxsan_support.ptx import HEADER, kernel


def _program(body: str, *, before: str = "") -> Program:
    text = kernel(body)
    return build(parse(text.replace(HEADER, HEADER + before)), "k")


def test_variables_lie_far_apart_and_dynamic_ones_at_one_place() -> None:
    program = _program(
        ".shared .align 4 .b8 tile[40]; .shared .f32 other[3];"
        "mov.u32 %r2, tile; mov.u32 %r3, other; mov.u32 %r4, pool; mov.u32 %r5, also;",
        before=".extern .shared .b8 pool[];\n.extern .shared .align 16 .b8 also[];\n",
    )
    places = {one.name.split("::")[-1]: one for one in program.shared}
    assert {name: one.bytes for name, one in places.items()} == {
        "tile": 40, "other": 12, "pool": 0, "also": 0,
    }  # fmt: skip
    assert places["pool"].address == places["also"].address
    addresses = sorted({one.address for one in program.shared})
    assert addresses[0] > 0
    assert all(b - a >= 1 << 20 for a, b in itertools.pairwise(addresses))


def test_variables_that_nothing_names_have_no_place() -> None:
    program = _program("ret;", before=".shared .f32 unused[4];\n")
    assert program.shared == ()


def test_parameters_are_aligned_to_their_own_size() -> None:
    text = kernel(
        "ret;", params=".param .u64 a, .param .u64 b, .param .u8 c, .param .u32 d, .param .b8 e[3]"
    )
    program = build(parse(text), "k")
    assert [(one.name, one.offset, one.bytes) for one in program.params] == [
        ("a", 0, 8), ("b", 8, 8), ("c", 16, 1), ("d", 20, 4), ("e", 24, 3),
    ]  # fmt: skip
    assert program.param_bytes == 27


@pytest.mark.parametrize(
    ("body", "granule"),
    [
        ("ld.global.u32 %r2, [%rd1];", 4),
        ("ld.global.u64 %rd3, [%rd1];", 4),
        ("ld.global.u32 %r2, [%rd1]; st.global.u8 [%rd2], %r2;", 1),
        ("ld.global.u16 %h1, [%rd1]; st.shared.u8 [%r1], %r2;", 2),
        ("ret;", 4),
    ],
)
def test_the_granule_is_the_smallest_access_of_a_space(body: str, granule: int) -> None:
    assert _program(body).granule["global"] == granule


def test_what_a_kernel_does_at_all_is_known() -> None:
    plain = _program("ld.global.u32 %r2, [%rd1];")
    does = (plain.asynchronous, plain.copies, plain.has_objects, plain.reads_clocks)
    assert not any(does)
    assert _program("mov.u32 %r2, %clock;").reads_clocks
    assert _program("cp.async.ca.shared.global [%r1], [%rd1], 4;").copies
    waiting = _program("mbarrier.init.shared.b64 [%r1], 1;")
    assert waiting.has_objects
    assert waiting.asynchronous
    assert _program("ld.volatile.global.u32 %r2, [%rd1];").speaks_to_system
    assert not _program("ld.relaxed.gpu.global.u32 %r2, [%rd1];").speaks_to_system


def test_device_functions_have_addresses_that_nobody_reads() -> None:
    program = _program("ret;", before=".func first() { ret; }\n.func second() { ret; }\n")
    assert program.functions == {"first": FUNCTION_WINDOW + 16, "second": FUNCTION_WINDOW + 32}


def test_a_kernel_that_is_not_there_is_told_with_those_that_are() -> None:
    module = parse(kernel("ret;"))
    with pytest.raises(MachineError, match=r"no kernel 'other' in the module \(kernels: k\)"):
        build(module, f"k{BESIDE}other")


def test_it_knows_its_special_registers_and_whether_it_orders_launches() -> None:
    program = _program("griddepcontrol.wait; mov.u32 %r1, %tid.x; mov.u32 %r2, %clock;")
    assert program.special == {"%tid.x", "%clock"}
    assert program.reads_clocks
    assert program.overlaps
    assert not program.calls

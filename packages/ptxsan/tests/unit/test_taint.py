"""Whether branches and addresses of a kernel depend on what memory holds."""

from __future__ import annotations

import pytest

from ptxsan.parser import parse
from ptxsan.program import Program, build
from ptxsan.taint import data_dependent, decided_by_data
from ptxsan_support.ptx import kernel


def _program(body: str) -> Program:
    return build(parse(kernel(body)), "k")


def _opcodes(program: Program, lines: object) -> set[str]:
    assert isinstance(lines, tuple | frozenset)
    return {one.opcode for one in program.body if one.line in lines}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # What the thread's number decides.
        ("mul.wide.u32 %rd3, %r1, 4;\nadd.u64 %rd3, %rd3, %rd1;\nst.global.u32 [%rd3], 1;", set()),
        # Values that are only moved.
        ("ld.global.u32 %r2, [%rd1];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%rd2], %r2;", set()),
        # An index that was loaded.
        (
            "ld.global.u32 %r2, [%rd1];\nmul.wide.u32 %rd3, %r2, 4;\nadd.u64 %rd3, %rd3, %rd2;\n"
            "st.global.u32 [%rd3], 1;",
            {"st.global.u32"},
        ),
        # A branch on what was loaded.
        (
            "ld.global.u32 %r2, [%rd1];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra END;\nmov.u32 %r3, 1;\n"
            "END:",
            {"bra"},
        ),
        # By way of shared memory.
        (
            "ld.global.u32 %r2, [%rd1];\nst.shared.u32 [%r1], %r2;\nld.shared.u32 %r3, [%r1];\n"
            "st.shared.u32 [%r3], 1;",
            {"st.shared.u32"},
        ),
        # Shared memory into which no data went.
        (
            "st.shared.u32 [%r1], %r1;\nld.shared.u32 %r3, [%r1];\nst.shared.u32 [%r3], 1;",
            set(),
        ),
    ],
)
def test_lines_that_depend_on_data(body: str, expected: set[str]) -> None:
    program = _program(body)
    assert _opcodes(program, data_dependent(program)) == expected


_BRANCH = (
    "ld.global.u32 %r2, [%rd1];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra END;\n"
    "st.global.u32 [%rd2], 1;\nmov.u32 %r3, 5;\nEND:\nred.global.add.u32 [%rd2], 1;\n"
    "st.shared.u32 [%r3], 1;"
)


def test_data_has_a_say_in_what_stands_behind_its_branch_and_not_after_it() -> None:
    program = _program(_BRANCH)
    found = _opcodes(program, decided_by_data(program))
    assert {"bra", "st.global.u32", "mov.u32"} <= found
    assert "red.global.add.u32" not in found  # where the ways meet again
    assert "st.shared.u32" in found  # its address was written on one of them


def test_memory_whose_contents_are_known_is_no_data() -> None:
    program = _program(_BRANCH)
    assert decided_by_data(program, known={"a": True, "b": False}) == frozenset()
    assert decided_by_data(program, known={"a": False, "b": True}) != frozenset()

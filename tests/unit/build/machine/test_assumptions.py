"""What Triton kernels assume: kept of TTIR, and evaluated for every program of a launch."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from cuassay.build.machine.assumptions import assumed, false_assumptions
from cuassay.model.recording import RecordedLaunch, Recording, decode, encode

_HEAD = """#loc = loc("/me/k.py":5:0)
module {
  tt.func public @k(%X: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("X"(#loc)), %n: i32 loc("n"(#loc)), %stride: i64 loc("stride"(#loc))) attributes {noinline = false} {
"""  # noqa: E501
_TAIL = """    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc6 = loc("/me/k.py":7:14)
#loc7 = loc("assumed"(#loc6))
"""


def ttir(body: str) -> str:
    """Return TTIR of a kernel of X, n (i32) and stride (i64)."""
    return _HEAD + body + _TAIL


def launched(
    text: str, n: int, stride: int, grid: tuple[int, int, int] = (4, 1, 1)
) -> RecordedLaunch:
    """Return a launch that keeps what the text assumes."""
    return RecordedLaunch(
        module=0,
        kernel="k",
        grid=grid,
        block=(128, 1, 1),
        shared_bytes=0,
        arguments=(struct.pack("<Q", 1 << 20), struct.pack("<i", n), struct.pack("<q", stride)),
        regions=(),
        assumes=assumed(text),
    )


DIVISIBLE = """    %c16 = arith.constant 16 : i64 loc(#loc)
    %c0 = arith.constant 0 : i64 loc(#loc)
    %0 = arith.remsi %stride, %c16 : i64 loc(#loc)
    %1 = arith.cmpi eq, %0, %c0 : i64 loc(#loc)
    llvm.intr.assume %1 : i1 loc(#loc7)
    %2 = arith.addi %stride, %c16 : i64 loc(#loc)
"""
INSIDE = """    %c128 = arith.constant 128 : i32 loc(#loc)
    %pid = tt.get_program_id x : i32 loc(#loc)
    %3 = arith.muli %pid, %c128 : i32 loc(#loc)
    %4 = arith.addi %3, %c128 : i32 loc(#loc)
    %5 = arith.cmpi sle, %4, %n : i32 loc(#loc)
    llvm.intr.assume %5 : i1 loc(#loc6)
"""


def test_only_the_lines_of_assumptions_are_kept() -> None:
    kept = assumed(ttir(DIVISIBLE))
    assert "arith.remsi" in kept
    assert "arith.addi" not in kept
    assert assumed(ttir("    %2 = arith.addi %stride, %stride : i64 loc(#loc)\n")) == ""


@pytest.mark.parametrize(
    ("text", "right", "wrong", "program"),
    [
        (DIVISIBLE, (100, 32), (100, 40), (0, 0, 0)),
        (INSIDE, (512, 1), (511, 1), (3, 0, 0)),
        (INSIDE.replace("sle", "ule"), (512, 1), (300, 1), (2, 0, 0)),
        (INSIDE.replace("program_id x", "program_id y"), (128, 1), (127, 1), (0, 0, 0)),
        (DIVISIBLE.replace("remsi", "remui").replace("eq,", "ne,"), (1, 7), (1, 16), (0, 0, 0)),
        (
            """    %c3 = arith.constant 3 : i32 loc(#loc)
    %6 = arith.divsi %n, %c3 : i32 loc(#loc)
    %7 = arith.extsi %6 : i32 to i64 loc(#loc)
    %8 = arith.cmpi slt, %7, %stride : i64 loc(#loc)
    llvm.intr.assume %8 : i1 loc(#loc6)
""",
            (-7, 0), (-2, 0), (0, 0, 0),
        ),
        (
            """    %c31 = arith.constant 31 : i32 loc(#loc)
    %c1 = arith.constant 1 : i32 loc(#loc)
    %9 = arith.shli %n, %c31 : i32 loc(#loc)
    %10 = arith.cmpi slt, %9, %c1 : i32 loc(#loc)
    %11 = arith.cmpi sgt, %n, %c1 : i32 loc(#loc)
    %12 = arith.andi %10, %11 : i1 loc(#loc)
    llvm.intr.assume %12 : i1 loc(#loc6)
""",
            (5, 0), (1, 0), (0, 0, 0),
        ),
    ],
)  # fmt: skip
def test_an_assumption_that_is_false_is_found(
    text: str, right: tuple[int, int], wrong: tuple[int, int], program: tuple[int, int, int]
) -> None:
    assert list(false_assumptions(launched(ttir(text), *right))) == []
    (fault,) = false_assumptions(launched(ttir(text), *wrong))
    assert (fault.kind, fault.severity) == ("false-assumption", "wrong")
    (touch,) = fault.touches
    assert (touch.file, touch.block) == ("k.py", program)
    assert f"program {program}" in fault.text


def test_what_reads_memory_or_stands_in_a_branch_is_passed_over() -> None:
    loaded = """    %s = tt.load %X : !tt.ptr<f32> loc(#loc)
    %cst = arith.constant 0.0 : f32 loc(#loc)
    %6 = arith.cmpf ogt, %s, %cst : f32 loc(#loc)
    llvm.intr.assume %6 : i1 loc(#loc6)
"""
    branch = "    scf.if %1 {\n      llvm.intr.assume %1 : i1 loc(#loc6)\n    } loc(#loc)\n"
    before, _, after = DIVISIBLE.partition("    llvm.intr.assume %1 : i1 loc(#loc7)\n")
    assert list(false_assumptions(launched(ttir(loaded), 0, 0))) == []
    assert list(false_assumptions(launched(ttir(before + branch + after), 1, 5))) == []


def test_a_recording_keeps_what_a_kernel_assumes() -> None:
    launch = launched(ttir(DIVISIBLE), 1, 5)
    again = decode(encode(Recording(modules=("",), launches=(launch,))))
    assert again.launches[0].assumes == launch.assumes
    bare = dataclasses.replace(launch, assumes="")
    assert decode(encode(Recording(modules=("",), launches=(bare,)))).launches[0].assumes == ""
    assert list(false_assumptions(bare)) == []


def test_hostile_lines_are_no_assumptions() -> None:
    for text in ("tt.func", "x" * 1000, _HEAD + "llvm.intr.assume", ttir("llvm.intr.assume %q\n")):
        launch = dataclasses.replace(launched(ttir(DIVISIBLE), 1, 16), assumes=text)
        assert list(false_assumptions(launch)) == []


# Triton reads TRITON_INTERPRET once, when it is imported: hence a process of its own.
_COMPILES = """
import triton
from triton.backends.compiler import GPUTarget
from tests.unit.build import assuming

source = triton.compiler.ASTSource(
    fn=assuming.kernel,
    signature={"x": "*fp32", "rows": "i32", "stride": "i32", "BLOCK": "constexpr"},
    constexprs={(3,): 64},
)
made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})
print(made.asm["ttir"])
"""


def test_triton_says_what_a_kernel_assumes() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("no Triton")
    text = subprocess.run(
        [sys.executable, "-c", _COMPILES],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[4],
        env={name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
        text=True,
    ).stdout
    good = RecordedLaunch(
        module=0, kernel="kernel", grid=(2, 1, 1), block=(128, 1, 1), shared_bytes=0, regions=(),
        arguments=(struct.pack("<Q", 256), struct.pack("<i", 2), struct.pack("<i", 64)),
        assumes=assumed(text),
    )  # fmt: skip
    assert list(false_assumptions(good)) == []
    bad = dataclasses.replace(good, arguments=(*good.arguments[:2], struct.pack("<i", 65)))
    (fault,) = false_assumptions(bad)
    assert (fault.touches[0].file, fault.touches[0].line) == ("assuming.py", 11)

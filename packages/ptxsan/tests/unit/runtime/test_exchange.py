"""ldmatrix and stmatrix of bytes, and of elements of 4 and 6 bits with padding.

What each lane holds is written from the manual's figures and from CUTLASS's layouts
(copy_traits_sm100.hpp), as arrays of (lane, register, byte).
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.findings import MachineReport
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.parser import parse
from ptxsan.run import run

pytest.importorskip("numba")
_HEAD = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{
.shared .align 128 .b8 rows[512];
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 4; mov.u32 %r3, rows; add.u32 %r3, %r3, %r2;
mul.wide.u32 %rd3, %r2, 1; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
"""
_LANES, _BYTES = np.arange(32), np.arange(4)


def _run(body: str, given: NDArray[np.uint8]) -> tuple[MachineReport, NDArray[np.uint8]]:
    """Run a warp with 16 bytes a lane in and out; what comes out is [lane, register, byte]."""
    out = np.zeros((32, 4, 4), np.uint8)
    arguments = tuple(
        Pointer(buffer=Buffer(name=name, data=one.reshape(-1)))
        for name, one in (("a", given), ("b", out))
    )
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(32, 1, 1), arguments=arguments)
    return run(parse(f"{_HEAD}{body}\nret;\n}}"), launch), out


def _load(spelling: str, count: int, words: int = 4) -> str:
    """Each lane stores the words of a row that hold elements, and keeps what it is given."""
    names = [f"%r{8 + index}" for index in range(count)]
    text = ""
    for index in range(words):
        text += f"ld.global.u32 %r4, [%rd4+{4 * index}]; st.shared.u32 [%r3+{4 * index}], %r4;\n"
    text += f"bar.warp.sync -1;\nldmatrix.sync.aligned.{spelling} {{{', '.join(names)}}}, [%r3];\n"
    for index, name in enumerate(names):
        text += f"st.global.u32 [%rd5+{4 * index}], {name};\n"
    return text


def _unpacked(rows: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return the 16 elements at the beginning of each row of 16 bytes."""
    each = np.unpackbits(rows, axis=1, bitorder="little")[:, : 16 * bits].reshape(-1, 16, bits)
    return np.packbits(each, axis=2, bitorder="little")[:, :, 0]


_FORMS = [(8, "b8", 4), (6, "b8x16.b6x16_p32", 3), (4, "b8x16.b4x16_p64", 2)]


@pytest.mark.parametrize(("bits", "type_", "words"), _FORMS)
@pytest.mark.parametrize("count", [1, 2])
def test_matrices_of_16_rows_come_transposed(bits: int, type_: str, words: int, count: int) -> None:
    given = np.random.default_rng(bits).integers(0, 256, (32, 16), dtype=np.uint8)
    text = _load(f"m16n16.x{count}.trans.shared.{type_}", 2 * count, words)
    report, found = _run(text, given)
    assert report.findings == ()
    elements = _unpacked(given, bits)
    for register in range(2 * count):
        row = 16 * (register // 2) + 4 * (_LANES % 4)[:, None] + _BYTES
        column = (_LANES // 4 + 8 * (register % 2))[:, None]
        assert (found[:, register] == elements[row, column]).all()
    assert not found[:, 2 * count :].any()


@pytest.mark.parametrize(("bits", "type_", "words"), _FORMS[1:])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_8_rows_come_row_by_row(bits: int, type_: str, words: int, count: int) -> None:
    given = np.random.default_rng(bits).integers(0, 256, (32, 16), dtype=np.uint8)
    report, found = _run(_load(f"m8n16.x{count}.shared.{type_}", count, words), given)
    assert report.findings == ()
    elements = _unpacked(given, bits)
    for register in range(count):
        row, column = 8 * register + _LANES // 4, 4 * (_LANES % 4)[:, None] + _BYTES
        assert (found[:, register] == elements[row[:, None], column]).all()


def test_a_row_whose_elements_nobody_wrote_is_said() -> None:
    """Of 16 rows of 12 bytes the last word is stored nowhere; its padding need not be."""
    given = np.zeros((32, 16), np.uint8)
    right, _ = _run(_load("m8n16.x4.shared.b8x16.b6x16_p32", 4, 3), given)
    wrong, _ = _run(_load("m8n16.x4.shared.b8x16.b6x16_p32", 4, 2), given)
    assert right.findings == ()
    assert [str(one.kind) for one in wrong.wrong] == ["uninitialised"] * len(wrong.wrong) != []


@pytest.mark.parametrize("count", [1, 2, 4])
def test_bytes_are_stored_transposed(count: int) -> None:
    """Two lanes of four, and two bytes of a register, are rows: not as `ldmatrix` has them."""
    given = np.random.default_rng(count).integers(0, 256, (32, 16), dtype=np.uint8)
    names = [f"%r{8 + index}" for index in range(count)]
    text = "".join(
        f"ld.global.u32 {name}, [%rd4+{4 * index}];\n" for index, name in enumerate(names)
    )
    text += f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r3], {{{', '.join(names)}}};\n"
    text += f"bar.warp.sync -1; setp.ge.u32 %p1, %r1, {8 * count}; @%p1 exit;\n"
    for index in range(4):
        text += f"ld.shared.u32 %r4, [%r3+{4 * index}]; st.global.u32 [%rd5+{4 * index}], %r4;\n"
    report, found = _run(text, given)
    assert report.findings == ()
    registers = given.reshape(32, 4, 4)
    rows = found.reshape(32, 16)
    for matrix in range(count):
        for index in range(4):
            row, column = 8 * matrix + 2 * (_LANES % 4) + index % 2, _LANES // 4 + 8 * (index // 2)
            assert (rows[row, column] == registers[:, matrix, index]).all()


def test_a_shape_without_meaning_is_inconclusive() -> None:
    given = np.zeros((32, 16), np.uint8)
    report, _ = _run(_load("m16n16.x1.shared.b8", 2), given)
    assert report.inconclusive is not None

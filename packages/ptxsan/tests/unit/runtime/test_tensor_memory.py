"""tcgen05.ld and st: which register of which thread is which cell, for every shape and count."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ptxsan_corpus import tensor_kernels as K

pytest.importorskip("numba")
_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
_WIDTHS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}
_SPLIT = 16  # columns to the second half of 16x32bx2


def _cells(shape: str, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (lane of the warp, register, row, column): the figures of the manual, read by rows."""
    if shape == "32x32b":
        yield from ((row, column, row, column) for row in range(32) for column in range(count))
        return
    if shape == "16x32bx2":
        for row in range(16):
            for column in range(count):
                yield row, column, row, column
                yield row + 16, column, row, column + _SPLIT
        return
    for piece in range(count):
        for row in range(16):
            below, place = divmod(row, 8)
            for column in range(_WIDTHS[shape]):
                at = piece * _WIDTHS[shape] + column
                if shape == "16x64b":  # rows below go to odd threads
                    yield 4 * place + 2 * column + below, piece, row, at
                elif shape == "16x128b":  # a thread has a column of a row and of the row 8 below
                    yield 4 * place + column, 2 * piece + below, row, at
                else:  # two columns of each
                    yield 4 * place + column // 2, 4 * piece + 2 * below + column % 2, row, at


_COUNTS = {
    "32x32b": (2, 128), "16x64b": (1, 64), "16x128b": (2, 32), "16x256b": (2, 16),
    "16x32bx2": (4,),
}  # fmt: skip
_CASES = [
    (shape, count, packed, below)
    for shape, counts in _COUNTS.items()
    for count in counts
    for packed in (False, True)
    for below in (16 if packed and shape != "32x32b" else 0,)
    if _WIDTHS[shape] * count * (1 + packed) <= (16 if shape == "16x32bx2" else 128)
]


def _kernel(shape: str, count: int, packed: bool, below: int, *, store: bool) -> str:
    """Return a kernel that fills 128 columns from `a` and loads (or stores) in one shape."""
    each = _REGISTERS[shape] * count
    half = f", {_SPLIT}" if shape == "16x32bx2" else ""
    spelt = f"sync.aligned.{shape}.x{count}"
    whole = "sync.aligned.32x32b.x128.b32"
    access = (
        f"tcgen05.st.{spelt}{'.unpack::16b' if packed else ''}.b32 [%r13]{half}, "
        f"{K.names(each, 128)};"
        if store
        else f"tcgen05.ld.{spelt}{'.pack::16b' if packed else ''}.b32 {K.names(each, 128)}, "
        f"[%r13]{half};"
    )
    kept = 128 if store else each
    first = 0 if store else 128
    body = f"""@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], 128;
bar.sync 0;
ld.shared.b32 %r7, [where];
and.b32 %r10, %r2, 3; shl.b32 %r10, %r10, 21; add.u32 %r11, %r7, %r10;
add.u32 %r13, %r11, {below << 16};
mul.lo.u32 %r12, %r1, 512; cvt.u64.u32 %rd9, %r12; add.u64 %rd10, %rd1, %rd9;
mul.lo.u32 %r12, %r1, {4 * each}; cvt.u64.u32 %rd9, %r12; add.u64 %rd11, %rd2, %rd9;
mul.lo.u32 %r12, %r1, {4 * kept}; cvt.u64.u32 %rd9, %r12; add.u64 %rd12, %rd3, %rd9;
{chr(10).join(f"ld.global.b32 %v{at}, [%rd10+{4 * at}];" for at in range(128))}
tcgen05.st.{whole} [%r11], {K.names(128)};
tcgen05.wait::st.sync.aligned;
{chr(10).join(f"ld.global.b32 %v{128 + at}, [%rd11+{4 * at}];" for at in range(each))}
{access}
tcgen05.wait::{"st" if store else "ld"}.sync.aligned;
{f"tcgen05.ld.{whole} {K.names(128)}, [%r11]; tcgen05.wait::ld.sync.aligned;" if store else ""}
{chr(10).join(f"st.global.b32 [%rd12+{4 * at}], %v{first + at};" for at in range(kept))}
bar.sync 0;
@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, 128;"""
    return K.module(body)


@pytest.mark.parametrize(("shape", "count", "packed", "below"), _CASES)
def test_a_load_gives_each_register_its_cell(
    shape: str, count: int, packed: bool, below: int
) -> None:
    random = np.random.default_rng(count)
    memory = random.integers(0, 1 << 32, (128, 128), np.uint32)
    each = _REGISTERS[shape] * count
    given = np.zeros((128, each), np.uint32)
    expected = np.zeros_like(given)
    for warp in range(4):
        for lane, register, row, column in _cells(shape, count):
            cells = memory[32 * warp + below + row]
            value = cells[column]
            if packed:
                value = cells[2 * column] & 0xFFFF | cells[2 * column + 1] << 16
            expected[32 * warp + lane, register] = value
    text = _kernel(shape, count, packed, below, store=False)
    report, buffers = K.execute(text, (memory, given, given))
    assert (report.inconclusive, report.findings) == (None, ())
    np.testing.assert_array_equal(buffers[2].data.view(np.uint32).reshape(given.shape), expected)


@pytest.mark.parametrize(("shape", "count", "packed", "below"), _CASES)
def test_a_store_writes_the_cells_of_its_registers(
    shape: str, count: int, packed: bool, below: int
) -> None:
    random = np.random.default_rng(count)
    memory = random.integers(0, 1 << 32, (128, 128), np.uint32)
    given = random.integers(0, 1 << 32, (128, _REGISTERS[shape] * count), np.uint32)
    expected = memory.copy()
    for warp in range(4):
        for lane, register, row, column in _cells(shape, count):
            cells, value = expected[32 * warp + below + row], given[32 * warp + lane, register]
            if packed:
                cells[2 * column], cells[2 * column + 1] = value & 0xFFFF, value >> 16
            else:
                cells[column] = value
    text = _kernel(shape, count, packed, below, store=True)
    report, buffers = K.execute(text, (memory, given, np.zeros_like(memory)))
    assert (report.inconclusive, report.findings) == (None, ())
    np.testing.assert_array_equal(buffers[2].data.view(np.uint32).reshape(memory.shape), expected)

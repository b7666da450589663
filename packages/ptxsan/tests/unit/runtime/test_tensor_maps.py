"""Tiles of packed elements of 4 and 6 bits, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Buffer, Launch, Pointer, TensorMap
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan.runtime.tensor_maps import from_hardware, in_hardware_form
from ptxsan_corpus.hardware_maps import ADDRESS, WRITTEN, hardware_bytes
from ptxsan_support.ptx import buffer_of

pytest.importorskip("numba")

_ROWS, _BOX_ROWS = 6, 4
_LOAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 y)
{
.reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<4>;
.shared .align 1024 .b8 tile[512]; .shared .align 8 .b64 bar;
ld.param.u64 %rd1, [y]; mov.u32 %r5, COLUMN; mov.u32 %r6, ROW;
mov.u64 %rd2, map; cvta.param.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0;
@!%p1 mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
@%p1 bra wait;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], COUNTED;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd2, {%r5, %r6}], [bar];
wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra wait;
mov.u32 %r7, tile; add.u32 %r7, %r7, %r1; cvt.u64.u32 %rd3, %r1; add.u64 %rd3, %rd1, %rd3;
setp.ge.u32 %p3, %r1, BYTES; @%p3 exit;
ld.shared.u8 %r8, [%r7]; st.global.u8 [%rd3], %r8;
ret;
}
"""  # noqa: E501


def _loaded(
    element: str, elements: int, column: int, row: int, *, swizzle: int = 0, atom: int = 16,
    counted: int = 0,
) -> tuple[MachineReport, np.ndarray, np.ndarray]:  # fmt: skip
    """Return the report, the tile, and the tensor's rows: 256 elements each, seen as bytes."""
    bits = 8 if element == "u8" else 6 if element.startswith("b6") else 4
    x = np.random.default_rng(7).integers(1, 256, (_ROWS, 256 * bits // 8), dtype=np.uint8)
    line = elements // 2 if element == "b4x16" else elements
    y = buffer_of(np.zeros(_BOX_ROWS * line, np.uint8))
    tensor = TensorMap(
        pointer=Pointer(buffer=buffer_of(x)), element=element, sizes=(256, _ROWS),
        strides=(x.shape[1],), box=(elements, _BOX_ROWS),
        swizzle=swizzle, atom=atom,
    )  # fmt: skip
    counted = counted or _BOX_ROWS * elements * bits // 8  # what completes at the mbarrier
    text = _LOAD.replace("COUNTED", str(counted)).replace("BYTES", str(_BOX_ROWS * line))
    text = text.replace("COLUMN", str(column)).replace("ROW", str(row))
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(512, 1, 1),
        arguments=(tensor, Pointer(buffer=y)),
    )  # fmt: skip
    report = run(parse(text), launch, options=Options(arch=100))
    return report, y.data.reshape(_BOX_ROWS, line), x


@pytest.mark.parametrize(("column", "row"), [(0, 0), (64, 1), (192, 4), (-32, 0)])
def test_packed_pairs_are_moved_as_bytes(column: int, row: int) -> None:
    report, tile, x = _loaded("b4x16", 64, column, row)
    assert (report.inconclusive, report.findings) == (None, ())
    around = np.zeros((_ROWS + _BOX_ROWS, 128 + 64), np.uint8)
    around[:_ROWS, 32:160] = x
    first = 32 + column // 2
    np.testing.assert_array_equal(tile, around[row : row + _BOX_ROWS, first : first + 32])


@pytest.mark.parametrize(("element", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
@pytest.mark.parametrize(("column", "row"), [(0, 0), (128, 1), (128, 4), (256, 0)])
def test_sixteen_elements_begin_each_sixteen_bytes(
    element: str, bits: int, column: int, row: int
) -> None:
    report, tile, x = _loaded(element, 128, column, row)
    assert (report.inconclusive, report.findings) == (None, ())
    taken = 2 * bits
    groups = np.zeros((_ROWS + _BOX_ROWS, 32, 16), np.uint8)
    groups[:_ROWS, :16, :taken] = x.reshape(_ROWS, 16, taken)
    first = column // 16
    wanted = groups[row : row + _BOX_ROWS, first : first + 8]
    np.testing.assert_array_equal(tile.reshape(_BOX_ROWS, 8, 16), wanted)


@pytest.mark.parametrize("element", ["b4x16_p64", "b6x16_p32"])
def test_who_expects_the_padded_bytes_waits_forever(element: str) -> None:
    """CUTLASS and Triton expect the packed bytes, on hardware."""
    report, _, _ = _loaded(element, 128, 0, 0, counted=128 * _BOX_ROWS)
    assert Kind.DEADLOCK in {one.kind for one in report.wrong}


def test_padded_elements_come_128_at_a_time() -> None:
    report, _, _ = _loaded("b4x16_p64", 64, 0, 0)
    assert Kind.BAD_COPY in {one.kind for one in report.wrong}


def test_a_line_of_packed_pairs_is_a_multiple_of_16_bytes() -> None:
    with pytest.raises(MachineError, match="8 bytes of innermost box"):
        _loaded("b4x16", 16, 0, 0)


@pytest.mark.parametrize("atom", [16, 32])
def test_rows_of_128_bytes_are_turned_in_pieces_of_16_or_32(atom: int) -> None:
    report, tile, x = _loaded("u8", 128, 64, 1, swizzle=128, atom=atom)
    assert (report.inconclusive, report.findings) == (None, ())
    pieces = x[1 : 1 + _BOX_ROWS, 64:192].reshape(_BOX_ROWS, 128 // atom, atom)
    # CUTLASS: Swizzle<3, 4, 3> and Swizzle<2, 5, 2> of addresses
    turned = [[one[place ^ row % (128 // atom)] for place in range(len(one))]
              for row, one in enumerate(pieces)]  # fmt: skip
    np.testing.assert_array_equal(tile, np.reshape(turned, (_BOX_ROWS, 128)))


def test_what_stays_together_in_a_swizzle_is_16_or_32_bytes() -> None:
    with pytest.raises(MachineError, match="32 bytes kept together"):
        _loaded("u8", 64, 0, 0, swizzle=64, atom=32)


_STORE = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
{
.reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<4>;
.shared .align 1024 .b8 tile[1024];
mov.u64 %rd2, map; cvta.param.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2;
mov.u32 %r5, 0; mov.u32 %r6, 0;
next: st.shared.u32 [%r3], 0x01010101; st.shared.u32 [%r3+128], 0x02020202;
fence.proxy.async.shared::cta; bar.warp.sync -1;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {%r5, %r6}], [%r2];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
bar.warp.sync -1;
add.u32 %r6, %r6, 1; add.u32 %r2, %r2, STEP; add.u32 %r3, %r3, STEP;
setp.lt.u32 %p1, %r6, 3;
@%p1 bra next;
ret;
}
"""


@pytest.mark.parametrize("schedule", ["forward", "reverse"])
def test_a_tile_that_all_lanes_store_and_wait_for_is_one_store(schedule: str) -> None:
    x = buffer_of(np.zeros((6, 128), np.uint8))
    tensor = TensorMap(
        pointer=Pointer(buffer=x), element="u8", sizes=(128, 6), strides=(128,), box=(128, 1)
    )
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(32, 1, 1), arguments=(tensor,))
    text = _STORE.replace("STEP", "256")
    report = run(parse(text), launch, options=Options(arch=100, schedule=schedule))
    assert (report.inconclusive, report.findings) == (None, ())
    assert x.data.reshape(6, 128)[:, 0].tolist() == [1, 1, 1, 0, 0, 0]
    again = text.replace("add.u32 %r6, %r6, 1;", "add.u32 %r5, %r5, 16;")  # in the same row
    again = again.replace("setp.lt.u32 %p1, %r6, 3;", "setp.lt.u32 %p1, %r5, 33;")
    twice = run(parse(again), launch, options=Options(arch=100, schedule=schedule))
    assert Kind.RACE in [one.kind for one in twice.findings]  # bytes that a store still writes


def _read(raw: bytes) -> bytes | None:
    """Return the machine's 64 bytes of a map in hardware's form; None: it is not known."""
    source, made = (np.frombuffer(one, np.uint8).copy() for one in (raw, bytes(64)))
    assert in_hardware_form(source.ctypes.data)
    return made.tobytes() if from_hardware(source.ctypes.data, made.ctypes.data) else None


@pytest.mark.parametrize(("flags", "strides", "sizes", "box", "element", "swizzle"), WRITTEN)
def test_a_tensor_map_of_hardware_is_read(
    flags: int, strides: tuple[int, ...], sizes: tuple[int, ...], box: tuple[int, ...],
    element: str, swizzle: int,
) -> None:  # fmt: skip
    rank = len(box)
    same = TensorMap(
        pointer=Pointer(buffer=buffer_of(np.zeros(1, np.uint8))), element=element,
        sizes=tuple(one + 1 for one in sizes[:rank]), box=tuple(one + 1 for one in box),
        strides=tuple(16 * one for one in strides[: rank - 1]), swizzle=swizzle,
    ).packed(ADDRESS)  # fmt: skip
    assert _read(hardware_bytes(flags, strides, sizes, box)) == same[:64]
    own = np.frombuffer(same, np.uint8).copy()
    assert not in_hardware_form(own.ctypes.data)


@pytest.mark.parametrize(
    ("flags", "step"),
    [
        (0x46612, 0),  # a number that nothing wrote
        (0x46312 | 1 << 11, 0),  # interleaved
        (0x46312 | 1 << 16, 0),  # f16 that becomes tf32
        (0x46312, 1),  # an element stride of 2
    ],
)
def test_another_tensor_map_of_hardware_is_not_read(flags: int, step: int) -> None:
    raw = bytearray(hardware_bytes(flags, (32, 0), (255, 39, 0), (63, 7)))
    raw[53] = step
    assert _read(bytes(raw)) is None


_WRITES = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 map, .param .u64 x, .param .u64 y)
{
.reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .pred %p<4>;
.shared .align 1024 .b8 tile[256]; .shared .align 8 .b64 bar;
ld.param.u64 %rd1, [map]; ld.param.u64 %rd2, [x]; ld.param.u64 %rd3, [y];
mov.u32 %r5, 8; mov.u32 %r6, 1; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0;
@%p1 bra ready;
mbarrier.init.shared::cta.b64 [bar], 1;
mov.u64 %rd4, FLAGS;
st.global.v2.b64 [%rd1], {%rd2, %rd4};
st.global.v2.b64 [%rd1+16], {0, 0};
st.global.v2.b64 [%rd1+32], {SIZES, 0};
LAST
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
ready: bar.sync 0;
@%p1 bra wait;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {%r5, %r6}], [bar];
wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra wait;
mov.u32 %r7, tile; mad.lo.u32 %r7, %r1, 4, %r7; mad.wide.u32 %rd5, %r1, 4, %rd3;
ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd5], %r8;
ret;
}
"""  # noqa: E501
_FLAGS_U32, _LAST = 0x40112, "st.global.v2.b64 [%rd1+48], {BOX, 0x07};"  # 8 rows


@pytest.mark.parametrize(
    ("flags", "last", "expected", "inconclusive"),
    [
        (_FLAGS_U32, _LAST, None, None),
        (_FLAGS_U32, "", Kind.BAD_COPY, None),  # its box was never written
        (_FLAGS_U32 + 0x10, _LAST, Kind.BAD_COPY, None),  # a dimension more than the copy has
        (_FLAGS_U32 | 1 << 11, _LAST, None, "hardware's own form"),  # interleaved
    ],
)
def test_a_kernel_writes_a_tensor_map_in_hardwares_form(
    flags: int, last: str, expected: Kind | None, inconclusive: str | None
) -> None:
    x = np.arange(12 * 64, dtype=np.uint32).reshape(12, 64)
    y = buffer_of(np.zeros(64, np.uint32))
    stride = 64 * 4 // 16
    text = _WRITES.replace("FLAGS", str(flags | stride << 32)).replace("LAST", last)
    text = text.replace("SIZES", str(63 | 11 << 32)).replace("BOX", str(7 << 56))
    unwritten = Buffer(name="map", data=np.zeros(128, np.uint8), initialised=np.zeros(128, bool))
    arguments = tuple(Pointer(buffer=one) for one in (unwritten, buffer_of(x), y))
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(64, 1, 1), arguments=arguments)
    report = run(parse(text), launch, options=Options(arch=100))
    if inconclusive is not None:
        assert report.inconclusive is not None
        assert inconclusive in report.inconclusive
    elif expected is not None:
        assert expected in {one.kind for one in report.wrong}
    else:
        assert (report.inconclusive, report.findings) == (None, ())
        np.testing.assert_array_equal(y.data.view(np.uint32).reshape(8, 8), x[1:9, 8:16])

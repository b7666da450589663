"""Tensor maps and copies of tiles: which bytes they move, what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Argument, Buffer, Columns, Launch, Pointer, TensorMap
from ptxsan.parser import parse
from ptxsan.run import run

_HEAD = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 b)
{
.shared .align 8 .b64 bar; .shared .align 1024 .b8 buf[4096];
.reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
mov.b64 %rd1, map; cvta.param.u64 %rd9, %rd1; ld.param.u64 %rd2, [b];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd5, %rd2, %rd3;
shl.b32 %r2, %r1, 2; mov.u32 %r3, buf; add.u32 %r4, %r3, %r2;
setp.ne.u32 %p1, %r1, 0;
@!%p1 mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
"""
_COPY = "shared::cluster.global.mbarrier::complete_tx::bytes"
_FENCED = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
_LOAD = f"""
@%p1 bra W;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], BYTES;
cp.async.bulk.tensor.RANKd.{_COPY} [buf], [%rd9, {{AT}}], [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra W;
ld.shared.u32 %r5, [%r4];
st.global.u32 [%rd5], %r5;
"""


def tile(body: str, tensor: TensorMap, *, threads: int) -> tuple[MachineReport, NDArray[np.uint32]]:
    """Run a kernel `k(map, u32* b)`; return the report and what b holds."""
    b = np.zeros(threads, np.uint32)
    out = Buffer(name="b", data=b.view(np.uint8))
    arguments: tuple[Argument, ...] = (tensor, Pointer(buffer=out))
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(threads, 1, 1), arguments=arguments)
    return run(parse(f"{_HEAD}{body}\nret;\n}}"), launch), b


def load(at: str, tensor: TensorMap) -> tuple[MachineReport, NDArray[np.uint32]]:
    """Load the tile at some coordinates and return it."""
    steps = tensor.steps or (1,) * len(tensor.box)
    counts = [-(-box // step) for box, step in zip(tensor.box, steps, strict=True)]
    words = int(np.prod(counts))
    body = _LOAD.replace("BYTES", str(4 * words)).replace("RANK", str(len(tensor.box)))
    return tile(body.replace("AT", at), tensor, threads=words)


def numbers(**changes: object) -> TensorMap:
    """Return a map over a 12 x 8 matrix of 0, 1, 2..., in boxes of 4 x 4."""
    data = np.arange(96, dtype=np.uint32)
    fields: dict[str, object] = {
        "pointer": Pointer(buffer=Buffer(name="x", data=data.view(np.uint8))), "element": "u32",
        "sizes": (8, 12), "strides": (32,), "box": (4, 4), **changes,
    }  # fmt: skip
    return TensorMap(**fields)  # type: ignore[arg-type]


def test_a_tile_inside_is_what_lies_there() -> None:
    report, found = load("4, 2", numbers())
    assert report.findings == ()
    assert found.reshape(4, 4).tolist() == np.arange(96).reshape(12, 8)[2:6, 4:8].tolist()


def test_what_lies_outside_is_zero() -> None:
    report, found = load("6, -1", numbers())
    right = np.zeros((4, 4), int)
    right[1:, :2] = np.arange(96).reshape(12, 8)[:3, 6:]
    assert report.findings == ()
    assert found.reshape(4, 4).tolist() == right.tolist()


def test_what_lies_outside_is_nan_where_the_map_says_so() -> None:
    _, found = load("8, 0", numbers(element="f32", nan_fill=True))
    assert np.isnan(found.view(np.float32)).all()


def test_element_strides_skip_rows() -> None:
    _, found = load("0, 1", numbers(box=(4, 8), steps=(1, 2)))
    assert found.reshape(4, 4)[:, 0].tolist() == [8, 24, 40, 56]


@pytest.mark.parametrize("span", [32, 64, 128])
def test_swizzles_turn_chunks_of_16_bytes(span: int) -> None:
    width = span // 4
    data = np.arange(32 * width, dtype=np.uint32)
    tensor = numbers(
        pointer=Pointer(buffer=Buffer(name="x", data=data.view(np.uint8))),
        sizes=(width, 32), strides=(span,), box=(width, 32), swizzle=span,
    )  # fmt: skip
    _, found = load("0, 0", tensor)
    place = np.arange(32 * width) * 4
    turned = (place ^ (((place >> 7) & (span // 16 - 1)) << 4)) // 4
    assert found[turned].tolist() == data.tolist()


def test_a_map_made_on_the_device_is_read_like_any_other() -> None:
    fields = (
        ("global_address", "b64", "%rd2"), ("rank", "b32", "0"), ("box_dim", "b32", "0, 8"),
        ("global_dim", "b32", "0, 5"), ("element_stride", "b32", "0, 1"), ("elemtype", "b32", "2"),
        ("interleave_layout", "b32", "0"), ("swizzle_mode", "b32", "0"), ("fill_mode", "b32", "0"),
    )  # fmt: skip
    made = "\n".join(
        f"tensormap.replace.tile.{name}.shared::cta.b1024.{kind} [%rd6], {value};"
        for name, kind, value in fields
    )
    body = f"""
    st.shared.u32 [%r4], 0; bar.sync 0;
    cvt.u64.u32 %rd6, %r3;
    @%p1 bra MADE;
    {made}
    MADE: bar.sync 0;
    add.s64 %rd7, %rd2, 128;
    setp.gt.u32 %p3, %r1, 31; @%p3 exit;
    {_FENCED}.sync.aligned [%rd7], [%rd6], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd7], 128;
    @%p1 exit;
    st.global.u32 [%rd2+12], 7;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32;
    cp.async.bulk.tensor.1d.{_COPY} [buf+128], [%rd7, {{0}}], [bar];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra W;
    ld.shared.u32 %r7, [buf+140]; ld.shared.u32 %r8, [buf+152];
    st.global.u32 [%rd2], %r7; st.global.u32 [%rd2+4], %r8;
    """
    report, b = tile(body, numbers(), threads=64)
    assert report.findings == ()
    assert b[:2].tolist() == [7, 0]


_KEPT = """
@%p1 bra KEPT;
mov.u32 %r5, buf; mov.u32 %r6, 0;
KEEP: ld.b64 %rd8, [%rd9]; st.shared.b64 [%r5+256], %rd8;
add.s64 %rd9, %rd9, 8; add.u32 %r5, %r5, 8; add.u32 %r6, %r6, 8;
setp.lt.u32 %p4, %r6, BYTES; @%p4 bra KEEP;
mov.u32 %r7, buf; add.u32 %r7, %r7, 256;
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r7], 1, 3;
STRIDE
KEPT: bar.sync 0;
setp.gt.u32 %p3, %r1, 31; @%p3 exit;
add.s64 %rd7, %rd2, 128; mov.u32 %r7, buf; add.u32 %r7, %r7, 256; cvt.u64.u32 %rd6, %r7;
FENCED.sync.aligned [%rd7], [%rd6], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd7], 128;
@%p1 exit;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
cp.async.bulk.tensor.2d.COPY [buf], [%rd7, {0, 0}], [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra W;
ld.shared.u32 %r7, [buf+36]; ld.shared.u32 %r8, [buf+52];
st.global.u32 [%rd2], %r7; st.global.u32 [%rd2+4], %r8;
"""


def _kept(count: int, stride: str = "") -> tuple[MachineReport, NDArray[np.uint32]]:
    body = _KEPT.replace("BYTES", str(count)).replace("STRIDE", stride)
    body = body.replace("FENCED", _FENCED).replace("COPY", _COPY)
    return tile(body, numbers(), threads=64)


def test_the_first_64_bytes_of_a_map_are_a_template_for_another() -> None:
    """CuTe DSL's grouped GEMM copies no more before it replaces sizes and strides."""
    report, b = _kept(64)
    assert report.findings == ()
    assert b[:2].tolist() == [17, 0], "row 2 is inside, row 3 is not any more"


def test_a_map_with_bytes_that_nobody_wrote_is_refused() -> None:
    report, _ = _kept(56)
    (one,) = (found for found in report.wrong if found.kind is Kind.BAD_COPY)
    assert "of which nobody wrote byte 56" in one.text


def test_strides_of_more_than_36_bits_and_odd_ones() -> None:
    replace = "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r7], 0, STRIDE;"
    report, b = _kept(64, replace.replace("STRIDE", "16"))
    assert report.findings == ()
    assert b[0] == 9, "rows overlap by half: row 2 begins at element 8"
    report, _ = _kept(64, replace.replace("STRIDE", "24"))
    assert Kind.BAD_COPY in {one.kind for one in report.wrong}


def test_a_map_that_says_nothing_is_refused_where_it_is_used() -> None:
    body = "add.s64 %rd9, %rd2, 0; @%p1 exit;" + _LOAD.replace("BYTES", "64").replace("RANK", "2")
    report, _ = tile(body.replace("AT", "0, 0").replace("@%p1 bra W;", ""), numbers(), threads=64)
    assert Kind.BAD_COPY in {one.kind for one in report.findings}


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("im2col", "has no im2col offsets"),
        ("im2col::w", "mode of a later"),
        ("tile::gather4", "later"),
    ],
)
def test_an_unknown_mode_is_inconclusive_with_its_line(mode: str, words: str) -> None:
    body = _LOAD.replace("mbarrier::complete_tx", f"{mode}.mbarrier::complete_tx")
    body = body.replace("BYTES", "64").replace("RANK", "3").replace("AT", "0, 0, 0")
    report, _ = tile(body, numbers(), threads=32)
    assert report.inconclusive is not None
    assert words in report.inconclusive


def columns(at: str, offsets: str, **changes: object) -> tuple[MachineReport, NDArray[np.uint32]]:
    """Load 8 pixels of 4 channels of a 4 x 5 x 3 x 2 tensor of 0, 1, 2... in im2col mode."""
    fields: dict[str, object] = {"lower": (-1, 0), "upper": (0, 0), "channels": 4, "pixels": 8}
    data = np.arange(4 * 5 * 3 * 2, dtype=np.uint32)
    tensor = TensorMap(
        pointer=Pointer(buffer=Buffer(name="a", data=data.view(np.uint8))), element="u32",
        sizes=(4, 5, 3, 2), strides=(16, 80, 240),
        columns=Columns(**{**fields, **changes}),  # type: ignore[arg-type]
    )  # fmt: skip
    body = _LOAD.replace(_COPY, _COPY.replace("mbarrier", "im2col.mbarrier"))
    body = body.replace("{AT}], [bar];", f"{{AT}}], [bar], {{{offsets}}};")
    body = body.replace("BYTES", "128").replace("RANK", "4").replace("AT", at)
    return tile("mov.b16 %h1, 1; mov.b16 %h2, 0;" + body, tensor, threads=32)


def test_pixels_follow_each_other_through_the_bounding_box() -> None:
    report, b = columns("0, 3, 2, 0", "%h2, %h2")
    assert report.findings == ()
    pixels = [13, 14, None, 15, 16, 17, 18, 19]  # W -1 to 4, then the next image's first row
    wanted = [[0] * 4 if one is None else range(4 * one, 4 * one + 4) for one in pixels]
    assert b.reshape(8, 4).tolist() == [list(one) for one in wanted]


def test_offsets_shift_what_is_read_not_the_box() -> None:
    report, b = columns("0, 3, 2, 0", "%h1, %h2")
    assert report.findings == ()
    pixels = [14, None, 15, 16, 17, 18, 19, None]
    wanted = [[0] * 4 if one is None else range(4 * one, 4 * one + 4) for one in pixels]
    assert b.reshape(8, 4).tolist() == [list(one) for one in wanted]


def test_a_column_that_begins_outside_of_its_box_is_inconclusive() -> None:
    report, _ = columns("0, 5, 2, 0", "%h2, %h2")
    assert report.inconclusive is not None
    assert "outside of its bounding box" in report.inconclusive


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lower": (-129, 0)}, "-128 to 127"),
        ({"lower": (0,)}, "two less in each corner"),
        ({"pixels": 1025}, "1 to 1024 pixels"),
        ({"channels": 3}, "12 bytes of innermost box; a multiple of 16"),
        ({"lower": (5, 0)}, "a box that holds a pixel"),
    ],
)
def test_columns_that_no_hardware_takes_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(MachineError, match=words):
        columns("0, 0, 0, 0", "%h2, %h2", **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"box": (3, 4)}, "12 bytes of innermost box; a multiple of 16"),
        ({"box": (16, 4), "swizzle": 32}, "32 at most"),
        ({"box": (4, 300)}, "1 to 256 elements"),
        ({"strides": (20,)}, "multiples of 16 bytes"),
        ({"strides": ()}, "one stride less"),
        ({"element": "f24"}, "a known one of each"),
        ({"steps": (1, 9)}, "2 of 1 to 8"),
        ({"sizes": (8, 0)}, r"1 to 2\^32 - 1"),
    ],
)
def test_maps_that_hardware_does_not_take_are_refused(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(MachineError, match=words):
        numbers(**changes).packed()

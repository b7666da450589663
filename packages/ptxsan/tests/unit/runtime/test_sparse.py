"""Products with a sparse A, and with columns of B that a mask makes zero.

Where metadata lie is written from the layouts of CUTLASS (`tmem_e_frg`, in tensor memory) and from
the manual's figures (`mma.sp`); what a mask hides from the manual's four examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.findings import Kind
from ptxsan.launch import Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_corpus import tensor_kernels as K
from ptxsan_support import tensor_model as M
from ptxsan_support.ptx import buffer_of

pytest.importorskip("numba")
_IMAGE = 16384
_CODES = (0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE)
_SPARSE, _LEADING = 1 << 2, 128 // 16 << 16 | 1 << 46


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A kind: format, its field, what is stored of a row, elements of a chunk, columns of codes."""

    kind: str
    name: str
    field: int
    stored: int
    chunk: int = 4
    selector: int = 0
    inside: bool = False


_FORMS = (
    _Form(kind="f16", name="f16", field=0, stored=16),
    _Form(kind="f16", name="bf16", field=1, stored=16, selector=1),
    _Form(kind="tf32", name="tf32", field=2, stored=8, chunk=2),
    _Form(kind="tf32", name="tf32", field=2, stored=8, chunk=2, selector=1),
    _Form(kind="f8f6f4", name="e4m3", field=0, stored=32),
    _Form(kind="f8f6f4", name="e2m1", field=5, stored=32),
    _Form(kind="i8", name="s8", field=1, stored=32),
    _Form(kind="mxf8f6f4.block_scale.scale_vec::1X", name="e5m2", field=1, stored=32),
    _Form(kind="mxf4.block_scale.scale_vec::2X", name="e2m1", field=1, stored=64, chunk=8),
)


def _met(codes: NDArray[np.int64], form: _Form) -> NDArray[np.int64]:
    """Return which elements along K each stored one of a row is: [rows, stored]."""
    first, second = codes & 3, codes >> 2
    if form.chunk == 2:
        each = [np.where(codes == 0xE, 1, 0)]
    elif form.chunk == 4:
        each = [first, second]
    else:
        each = [2 * first, 2 * first + 1, 2 * second, 2 * second + 1]
    begin = form.chunk * np.arange(codes.shape[1])[None, :, None]
    met: NDArray[np.int64] = begin + np.stack(each, -1)
    return met.reshape(len(codes), -1)


def _words(codes: NDArray[np.int64], form: _Form) -> NDArray[np.uint32]:
    """Return the codes of 128 rows in eight columns of tensor memory, as CUTLASS lays them out."""
    words = np.full((128, 8), 0x5555_5555, np.uint32)  # what no product may read means nothing
    depth = 2 * form.stored
    words[:, form.selector : form.selector + (1 if depth <= 32 else 2)] = 0
    for (row, chunk), code in np.ndenumerate(codes):
        k = chunk * form.chunk
        if form.kind in ("f16", "tf32"):
            half = depth // 2
            lane = row % 8 + 8 * (k // half) + 16 * (row // 16)
            column = form.selector
            bit = 16 * (row // 8 % 2) + k % half * 16 // half
        else:
            lane, bit = row, k * 64 // depth
            column = bit // 32
        words[lane, column] |= np.uint32(int(code) << bit % 32)
    return words


def _factors(random: np.random.Generator, name: str, shape: tuple[int, int]) -> NDArray[np.int64]:
    bits = M.FORMATS[name][0] if name in M.FORMATS else 8
    found = random.integers(0, 1 << min(bits, 16), shape) << max(bits - 16, 0)
    if name in M.FORMATS:
        finite = np.isfinite(M.decode(found, name)[0])
        near = np.abs(np.nan_to_num(M.decode(found, name)[0])) < 2.0**12
        return np.where(finite & near, found, 1)
    return found


def _text(form: _Form, columns: int, b_stride: int) -> str:
    scaled = form.kind.startswith("mx")
    described = form.field << 7 | form.field << 10 | columns // 8 << 17
    described |= 1 << 27 | 1 << 23 if scaled else 8 << 24
    described |= (2 if form.name == "s8" else 1) << 4 if not scaled else 0
    text = K.moved(
        kind=form.kind, described=described | _SPARSE | form.selector,
        a=_LEADING | 256 // 16 << 32, b=_LEADING | b_stride // 16 << 32, columns=columns,
        image=_IMAGE, scales=16, rest="[%r27], [%r28], " if scaled else "",
    )  # fmt: skip
    text = text.replace("add.u32 %r27, %r25, 4;", "add.u32 %r27, %r25, 8; add.u32 %r28, %r25, 12;")
    return text.replace("mma.cta_group", "mma.sp.cta_group").replace(
        "%rd8, %r9", "%rd8, [%r25], %r9"
    )


def _packed(codes: NDArray[np.int64], form: _Form) -> NDArray[np.uint8]:
    if form.chunk == 8:
        return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    return M.pack(codes, form.name)


def _case(
    form: _Form, seed: int, *, hollow: bool = False
) -> tuple[str, list[NDArray[Any]], NDArray[Any]]:
    """Return the kernel, its arrays, and D of the model; a `hollow` A has a chunk of zeros."""
    random, columns = np.random.default_rng(seed), 32
    a, b = (
        _factors(random, form.name, shape)
        for shape in ((128, form.stored), (columns, 2 * form.stored))
    )
    legal = (0x4, 0xE) if form.chunk == 2 else _CODES
    codes = random.choice(legal, (128, 2 * form.stored // form.chunk))
    if hollow:  # CUTLASS's code of zeros names one element twice
        a[77, : form.chunk // 2] = 0
        codes[77, 0] = 0
    met = _met(codes, form)
    count = {2: 1, 4: 1, 8: 2}[form.chunk]
    words = np.concatenate([_words(codes, form), np.full((128, 8), 0x7F7F7F7F, np.uint32)], axis=1)
    scales = [np.full((1, count), 127), np.full((columns, count), 127)]
    c: NDArray[Any] = (random.standard_normal((128, columns)) * 8).astype(np.float32)
    if form.name == "s8":
        c = random.integers(-1000, 1000, c.shape).astype(np.int32)
        x, y = (one.astype(np.uint8).view(np.int8).astype(np.int32) for one in (a, b))
        rows = [x[row] @ y[:, met[row]].T for row in range(128)]
        expected: NDArray[Any] = c + np.stack(rows)
    else:
        every = []
        for row in range(128):
            p, q = (M.decode(one, form.name) for one in (a[row : row + 1], b[:, met[row]]))
            own = c[row : row + 1]
            every.append(
                M.scaled_sums(p, q, own, scales, "ue8m0")
                if form.kind.startswith("mx")
                else M.sums(p, q, own)
            )
        expected = np.concatenate(every)
    b_bytes = _packed(b, form)
    images = [M.k_major(_packed(a, form), 16, _IMAGE), M.k_major(b_bytes, 16, _IMAGE)]
    images[0] = np.concatenate([images[0], words.view(np.uint8).ravel()])
    text = _text(form, columns, 8 * b_bytes.shape[1])
    return text, [*images, c.view(np.uint32)], expected


@pytest.mark.parametrize("form", _FORMS, ids=lambda one: f"{one.kind}-{one.name}-{one.selector}")
def test_a_sparse_product_takes_what_is_stored_of_a_and_what_that_meets_of_b(form: _Form) -> None:
    for seed in (0, 1):
        text, arrays, expected = _case(form, seed)
        report, buffers = K.execute(text, arrays)
        assert (report.inconclusive, report.findings) == (None, ())
        found = buffers[2].data.view(expected.dtype).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", [_FORMS[0], _FORMS[-1]], ids=lambda one: one.kind)
def test_a_chunk_of_zeros_needs_no_code(form: _Form) -> None:
    text, arrays, expected = _case(form, 6, hollow=True)
    report, buffers = K.execute(text, arrays)
    assert (report.inconclusive, report.findings) == (None, ())
    found = buffers[2].data.view(expected.dtype).reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_infinities_that_no_stored_element_meets_are_not_multiplied() -> None:
    form = _FORMS[0]
    text, arrays, _ = _case(form, 3)
    image = arrays[1].view(np.uint16)  # of B: 8 x 8 halves, K in steps of 8
    words = arrays[0][_IMAGE:].view(np.uint32).reshape(128, 16)
    words[:, 0] = 0x4444_4444  # stored are the first two of every four
    place = np.arange(image.size)
    image[place % 4 > 1] = 0x7C00
    report, buffers = K.execute(text, arrays)
    assert (report.inconclusive, report.findings) == (None, ())
    assert np.isfinite(buffers[2].data.view(np.float32)).all()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    old: str
    new: str
    said: str


_FAULTS = {
    "a_code_without_meaning": _Fault(old="", new="", said="reads the metadata code 0x5"),
    "no_sparse_bit": _Fault(
        old=str(1 << 4 | 4 << 17 | 8 << 24 | _SPARSE), new=str(1 << 4 | 4 << 17 | 8 << 24),
        said="is not that of the instruction",
    ),
    "dense_instruction": _Fault(
        old="mma.sp.", new="mma.", said="is not that of the instruction"
    ),
    "metadata_nowhere": _Fault(
        old="%rd8, [%r25], %r9", new="%rd8, [%r7+200], %r9", said="nobody has allocated"
    ),
    "metadata_of_another_lane": _Fault(
        old="%rd8, [%r25], %r9", new="%rd8, [%r25+2097152], %r9", said="begins at lane 0"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_FAULTS))
def test_metadata_that_mean_nothing_are_found(name: str) -> None:
    fault = _FAULTS[name]
    text, arrays, _ = _case(_FORMS[0], 4)
    if name == "a_code_without_meaning":
        arrays[0][_IMAGE:].view(np.uint32).reshape(128, 16)[77, 0] = 0x4444_5444
    else:
        assert fault.old in text
        text = text.replace(fault.old, fault.new)
        if name == "dense_instruction":
            text = text.replace("[%r25], %r9", "%r9")
    report, _ = K.execute(text, arrays)
    assert report.inconclusive is None
    assert [one.kind for one in report.wrong] == [Kind.TENSOR_MEMORY]
    assert fault.said in report.wrong[0].text


def test_metadata_that_a_store_still_writes_race() -> None:
    text, arrays, _ = _case(_FORMS[0], 5)
    stored = text.index("tcgen05.wait::st.sync.aligned;")
    early = text[:stored] + text[stored:].replace("tcgen05.wait::st.sync.aligned;", "")
    report, _ = K.execute(early, arrays)
    assert Kind.RACE in [one.kind for one in report.wrong]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[%r25], %r9", "[%r25+1], %r9"),
        (str(1 << 4 | 4 << 17 | 8 << 24 | _SPARSE), str(1 << 4 | 4 << 17 | 8 << 24 | _SPARSE | 2)),
        (str(1 << 4 | 4 << 17 | 8 << 24 | _SPARSE), str(1 << 4 | 4 << 17 | 4 << 24 | _SPARSE)),
    ],
)
def test_sparse_products_whose_layout_nobody_has_published_have_no_verdict(
    old: str, new: str
) -> None:
    text, arrays, _ = _case(_FORMS[0], 6)
    assert old in text
    report, _ = K.execute(text.replace(old, new), arrays)
    assert "a sparse product" in (report.inconclusive or "")


# ---- columns of B that a mask makes zero


def _mask(starts: list[int], firsts: list[int], skip: int, use: int, shift: int) -> int:
    """Return a descriptor that is not "all zeros"; starts and firsts from part 0 on."""
    found = 1 << 39 | skip << 40 | use << 48 | shift << 56
    for part, (start, first) in enumerate(zip(starts, firsts, strict=True)):
        found |= start << 8 * part | first << 32 + part
    return found


# (M, descriptor, shift, each part's mask from its lowest bit on): examples 1 to 4 of the manual.
_EXAMPLES = (
    (128, 4 << 40 | 3 << 48, 0, ["0"]),
    (128, _mask([0], [0], 2, 3, 0), 0, ["0000111"]),
    (64, _mask([0, 0], [1, 0], 2, 3, 0), 0, ["1110000", "0000111"]),
    (32, _mask([0, 1, 2, 1], [1, 1, 0, 0], 2, 3, 2), 2,
     ["1110000", "11" + "0000111", "00" + "1110000", "000" + "1110000"]),
)  # fmt: skip


def _pattern(text: str, count: int) -> NDArray[np.bool_]:
    """Return the bits of a part, its period the last seven characters."""
    head, period = (text[:-7], text[-7:]) if len(text) > 7 else ("", text)
    return np.array([one == "1" for one in (head + period * count)[:count]])


@pytest.mark.parametrize("example", range(4))
def test_a_mask_makes_columns_of_b_zero_whatever_they_hold(example: int) -> None:
    rows, mask, shift, parts = _EXAMPLES[example]
    random, columns = np.random.default_rng(example), 128
    hidden = np.concatenate([_pattern(one, columns // len(parts)) for one in parts])
    a = random.integers(-8, 9, (rows, 16)).astype(np.float16)
    b = random.integers(-8, 9, (columns + shift, 16)).astype(np.float16)
    c = random.integers(-64, 64, (rows, columns)).astype(np.float32)
    kept = np.where(hidden[:, None], 0, b[shift:])
    b[shift:][hidden] = np.nan
    expected = c + a.astype(np.float32) @ kept.astype(np.float32).T
    images = [
        M.k_major(np.ascontiguousarray(one).view(np.uint8).reshape(len(one), 32), 16, _IMAGE)
        for one in (a, b)
    ]
    wide, banks = columns * rows // 128, 128 // rows
    cells = np.concatenate(np.split(c, banks, axis=1))
    described = 1 << 4 | columns // 8 << 17 | rows // 16 << 24 | 3 << 30
    descriptor = _LEADING | 256 // 16 << 32
    text = K.moved(
        kind="f16", described=described, a=descriptor, b=descriptor, columns=wide, image=_IMAGE,
        repeats=f", {mask}",
    )  # fmt: skip
    text = text.replace("tcgen05.mma.cta_group", "tcgen05.mma.ws.cta_group")
    report, buffers = K.execute(text, (*images, cells.view(np.uint32)))
    assert (report.inconclusive, report.findings) == (None, ())
    found = buffers[2].data.view(np.float32).reshape(cells.shape)
    np.testing.assert_array_equal(found, np.concatenate(np.split(expected, banks, axis=1)))


@pytest.mark.parametrize("most", [0, 1])
def test_a_shift_beyond_what_the_instruction_allows_is_found(most: int) -> None:
    mask, described = _mask([0], [0], 2, 3, 9), 1 << 4 | 4 << 17 | 8 << 24 | most << 30
    descriptor = _LEADING | 256 // 16 << 32
    text = K.moved(
        kind="f16", described=described, a=descriptor, b=descriptor, columns=32, image=_IMAGE,
        repeats=f", {mask}",
    )  # fmt: skip
    text = text.replace("tcgen05.mma.cta_group", "tcgen05.mma.ws.cta_group")
    text = text.replace(str(described), str(1 << 4 | 8 << 17 | 8 << 24 | most << 30))
    images = [np.zeros(_IMAGE, np.uint8) for _ in range(2)]
    report, _ = K.execute(text, (*images, np.zeros((128, 64), np.float32)))
    assert [one.kind for one in report.wrong] == [Kind.TENSOR_MEMORY]
    assert "shifts by 9 columns" in report.wrong[0].text


# ---- mma.sp: fragments and metadata in registers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Warp:
    """An `mma.sp`: its types of A and B and of D, K, elements of a chunk, and the selector."""

    a: str
    b: str
    d: str
    k: int
    chunk: int = 4
    selector: int = 0
    ordered: bool = False
    clamped: bool = False
    arch: int = 90
    kind: str = ""
    scales: str = ""  # of how many bytes a row and of which type: 4 ue4m3

    @property
    def bits(self) -> int:
        small = self.a in ("s4", "u4") or self.k == 128
        return 4 if small else 8 if self.a[0] in "sue" else self._wide

    @property
    def count(self) -> int:
        return int(self.scales[:1] or 0)

    @property
    def _wide(self) -> int:
        return 32 if self.a == "tf32" else 16


_WARPS = (
    _Warp(a="f16", b="f16", d="f32", k=16), _Warp(a="f16", b="f16", d="f32", k=16, selector=3),
    _Warp(a="f16", b="f16", d="f32", k=32, selector=1, ordered=True),
    _Warp(a="f16", b="f16", d="f16", k=32), _Warp(a="bf16", b="bf16", d="f32", k=32),
    _Warp(a="tf32", b="tf32", d="f32", k=8, chunk=2, selector=2),
    _Warp(a="tf32", b="tf32", d="f32", k=16, chunk=2, selector=1),
    _Warp(a="s8", b="u8", d="s32", k=32, selector=1), _Warp(a="s8", b="s8", d="s32", k=64),
    _Warp(a="u8", b="u8", d="s32", k=64, clamped=True, ordered=True),
    _Warp(a="s4", b="u4", d="s32", k=64, chunk=8, selector=1),
    _Warp(a="s4", b="s4", d="s32", k=128, chunk=8),
    _Warp(a="e4m3", b="e5m2", d="f32", k=64, arch=89),
    _Warp(a="e2m1", b="e3m2", d="f32", k=64, arch=120, ordered=True, kind="f8f6f4"),
    _Warp(a="e4m3", b="e2m1", d="f32", k=64, arch=120, ordered=True, kind="mxf8f6f4",
          scales="1 ue8m0"),
    _Warp(a="e2m1", b="e2m1", d="f32", k=128, chunk=8, arch=120, ordered=True, kind="mxf4",
          scales="2 ue8m0"),
    _Warp(a="e2m1", b="e2m1", d="f32", k=128, chunk=8, arch=120, ordered=True, kind="mxf4nvf4",
          scales="4 ue4m3"),
)  # fmt: skip
_SCALES = {"ue8m0": ([126, 127, 128], [0.5, 1.0, 2.0]),
           "ue4m3": ([0x30, 0x38, 0x3C, 0x40], [0.5, 1.0, 1.5, 2.0])}  # fmt: skip
_BYTES = {1: (3, 1), 2: (2, 0), 4: (0, 0)}  # by how many there are, the first one of A and of B


def _fragments(matrix: NDArray[np.int64], bits: int, rows_apart: int) -> NDArray[np.uint32]:
    """Return the registers of 32 lanes: A's rows 8 apart take turns, B's lie alone."""
    each = 32 // bits
    count = matrix.shape[1] // (4 * each) * rows_apart
    found = np.zeros((32, count), np.uint32)
    for lane, register, element in np.ndindex(32, count, each):
        row = lane // 4 + 8 * (register % rows_apart)
        column = lane % 4 * each + element + 4 * each * (register // rows_apart)
        code = int(matrix[row, column]) & (1 << bits) - 1
        found[lane, register] |= np.uint32(code << bits * element)
    return found


def _in_lanes(codes: NDArray[np.int64], case: _Warp) -> NDArray[np.uint32]:
    """Return the metadata of 32 lanes; those that the selector does not name hold nonsense."""
    lanes = codes.shape[1] // 4  # of four, that hold a row's codes
    found = np.full(32, 0x5A5A_A5A5, np.uint32)
    if case.bits <= 8:  # a word is eight codes of a row; rows 8 apart lie side by side
        for row, part in np.ndindex(16, lanes // 2):
            word = sum(int(codes[row, 8 * part + at]) << 4 * at for at in range(8))
            found[4 * (row % 8) + lanes * case.selector + 2 * part + row // 8] = word
        return found
    for group in range(8):
        for part in range(lanes):
            word = 0
            for index in range(8):
                word |= int(codes[group + 8 * (index // 4), 4 * part + index % 4]) << 4 * index
            found[4 * group + lanes * case.selector + part] = word
    return found


def _warp_text(case: _Warp, counts: tuple[int, int, int]) -> str:
    a, b, c = counts
    names = [f"%v{at}" for at in range(a + b + c + (3 if case.scales else 1))]
    loads = "\n".join(f"ld.global.b32 {name}, [%rd4+{4 * at}];" for at, name in enumerate(names))
    groups = [names[:a], names[a : a + b], names[a + b : a + b + c]]
    vectors = ["{" + ", ".join(one) + "}" for one in groups]
    form = "sp::ordered_metadata" if case.ordered else "sp"
    clamp = ".satfinite" if case.clamped else ""
    stores = "\n".join(f"st.global.b32 [%rd6+{4 * at}], {one};" for at, one in enumerate(groups[2]))
    after, scale, kind = "", "", f"kind::{case.kind}." if case.kind else ""
    if case.scales:
        kind += f"block_scale.scale_vec::{case.count}X."
        first, second = _BYTES[case.count]
        scale = f".{case.scales[2:]}"
        after = f", {{{names[-2]}}}, {{{first}, 1}}, {names[-1]}, {{{second}, 3}}"
    return f"""
.version 8.6
.target sm_{case.arch}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 d) {{
.reg .b32 %v<32>; .reg .b32 %r<4>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [d];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, {4 * len(names)}; add.u64 %rd4, %rd1, %rd3;
mul.wide.u32 %rd5, %r1, {4 * c}; add.u64 %rd6, %rd2, %rd5;
{loads}
mma.{form}.sync.aligned.{kind}m16n8k{case.k}.row.col{clamp}.{case.d}.{case.a}.{case.b}.{case.d}\
{scale} {vectors[2]}, {vectors[0]}, {vectors[1]}, {vectors[2]}, \
{names[a + b + c]}, {case.selector}{after};
{stores}
ret;
}}
"""


def _numbers(
    random: np.random.Generator, name: str, shape: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return codes and values of small whole numbers, so that every sum is exact."""
    if name[0] in "su":
        bits, sign = int(name[1:]), name[0] == "s"
        low, high = (-(1 << bits - 1), 1 << bits - 1) if sign else (0, 1 << bits)
        whole = random.integers(low, high, shape)
        return whole, whole.astype(np.float64)
    every = np.arange(1 << M.FORMATS[name][0] if name != "tf32" else 1 << 16)
    every = every << 16 if name == "tf32" else every
    values = M.decode(every, name)[0]
    small = np.isin(values, np.arange(-4, 5))
    picked = random.choice(np.flatnonzero(small), shape)
    return every[picked], values[picked]


def _in_words(
    random: np.random.Generator, case: _Warp, words: NDArray[np.uint32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Write scales of A and B into the words of lanes 1 (pairs) and 3 of each four; return them."""
    codes, values = _SCALES[case.scales[2:]]
    bytes_of = words.view(np.uint8).reshape(32, 2, 4)
    found = []
    for operand, (rows, first) in enumerate(zip((16, 8), _BYTES[case.count], strict=True)):
        picked = random.integers(0, len(codes), (rows, case.count))
        for row, at in np.ndindex(picked.shape):
            lane = 4 * (row % 8) + (3 if operand else 2 + row // 8)
            bytes_of[lane, operand, first + at] = codes[picked[row, at]]
        found.append(np.array(values)[picked])
    return found[0], found[1]


def _run_warp(
    case: _Warp, *, bad: int | None = None, spelt: int | None = None, hollow: bool = False
) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(case.k + case.selector)
    (a, x), (b, y) = (
        _numbers(random, name, shape)
        for name, shape in ((case.a, (16, case.k // 2)), (case.b, (8, case.k)))
    )
    legal = [0x4, 0xE] if case.chunk == 2 else [one for one in _CODES if one != 6]
    if case.chunk != 2 and not case.ordered:
        legal += [0x6, 0x1, 0x7]  # indices that descend
    codes = random.choice(legal, (16, case.k // case.chunk))
    form = _Form(kind="", name="", field=0, stored=case.k // 2, chunk=case.chunk)
    met = _met(codes, form)
    if bad is not None:
        codes[3, 1] = bad
    if hollow:
        of_one = case.chunk // 2
        a[3, of_one : 2 * of_one] = x[3, of_one : 2 * of_one] = 0
    c = random.integers(-50, 50, (16, 8)).astype(np.float64)
    if case.clamped:
        c[:] = 2**31 - 1000
    of_a, of_b = np.ones((16, 1)), np.ones((8, 1))
    words = np.full((32, 2), 0x9999_9999, np.uint32)  # no product may read these
    if case.scales:
        of_a, of_b = _in_words(random, case, words)
    blocks = np.arange(case.k // 2) * of_a.shape[1] // (case.k // 2)
    x = x * of_a[:, blocks]
    expected = c + np.stack([x[row] @ (y[:, met[row]] * of_b[:, blocks]).T for row in range(16)])
    a, b = (one << 2 if name == "e2m1" and case.bits == 8 else one
            for name, one in ((case.a, a), (case.b, b)))  # fmt: skip
    if case.clamped:
        expected = np.minimum(expected, 2**31 - 1)
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[case.d]
    packed = 2 if case.d == "f16" else 1
    sums = np.zeros((32, 4), dtype)
    for lane, index in np.ndindex(32, 4):
        sums[lane, index] = c[lane // 4 + 8 * (index // 2), lane % 4 * 2 + index % 2]
    parts = [
        _fragments(a, case.bits, 2), _fragments(b, case.bits, 1), sums.view(np.uint32),
        _in_lanes(codes, case)[:, None], words if case.scales else words[:, :0],
    ]  # fmt: skip
    counts = parts[0].shape[1], parts[1].shape[1], 4 // packed
    given = np.concatenate(parts, axis=1).astype(np.uint32)
    buffers = [buffer_of(given, "a"), buffer_of(np.zeros((32, counts[2]), np.uint32), "d")]
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(32, 1, 1),
        arguments=tuple(Pointer(buffer=one) for one in buffers),
    )  # fmt: skip
    options = Options(arch=case.arch, shadow=case.bits >= 16)
    text = _warp_text(case, counts)
    if spelt is not None:
        text = text.replace(f", {case.selector};\n", f", {spelt};\n")
    report = run(parse(text), launch, options=options)
    found = buffers[1].data.view(dtype).reshape(32, 4)
    wanted = np.zeros_like(sums)
    for lane, index in np.ndindex(32, 4):
        wanted[lane, index] = expected[lane // 4 + 8 * (index // 2), lane % 4 * 2 + index % 2]
    return report, found, wanted


@pytest.mark.parametrize(
    "case", _WARPS, ids=lambda one: f"{one.kind or one.a}-{one.d}-{one.k}-{one.selector}"
)
def test_a_warps_sparse_product_reads_the_metadata_of_its_selectors_lanes(case: _Warp) -> None:
    report, found, wanted = _run_warp(case)
    assert (report.inconclusive, report.findings) == (None, ())
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("bad", "ordered"), [(0x5, False), (0x6, True), (0xA, True)])
def test_what_comes_of_metadata_without_meaning_counts_as_unwritten(
    bad: int, ordered: bool
) -> None:
    report, _, _ = _run_warp(_Warp(a="f16", b="f16", d="f32", k=32, ordered=ordered), bad=bad)
    assert report.inconclusive is None
    assert {one.kind for one in report.wrong} == {Kind.UNINITIALISED}


def test_a_warps_chunk_of_zeros_needs_no_code() -> None:
    case = _Warp(a="f16", b="f16", d="f32", k=32)
    report, found, wanted = _run_warp(case, bad=0x0, hollow=True)
    assert (report.inconclusive, report.findings) == (None, ())
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("case", "spelt"),
    [
        (_Warp(a="f16", b="f16", d="f32", k=32), 2),
        (_Warp(a="s8", b="s8", d="s32", k=64), 1),
        (_Warp(a="tf32", b="tf32", d="f32", k=8, chunk=2), 4),
    ],
)
def test_a_selector_that_a_shape_lacks_has_no_verdict(case: _Warp, spelt: int) -> None:
    report, _, _ = _run_warp(case, spelt=spelt)
    assert f"has the selector {spelt}" in (report.inconclusive or "")

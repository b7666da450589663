"""tcgen05.mma against a model in NumPy: formats, layouts, accumulators, bit for bit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.findings import Kind, MachineReport
from ptxsan_corpus import tensor_kernels as K
from ptxsan_support import tensor_model as M

pytest.importorskip("numba")
_FIELDS = {
    "f16": ("f16", 0), "bf16": ("f16", 1), "tf32": ("tf32", 2), "e4m3": ("f8f6f4", 0),
    "e5m2": ("f8f6f4", 1), "e2m3": ("f8f6f4", 3), "e3m2": ("f8f6f4", 4), "e2m1": ("f8f6f4", 5),
    "u8": ("i8", 0), "s8": ("i8", 1),
}  # fmt: skip
_MODES = {16: 0, 32: 6, 64: 4, 128: 2}
_IMAGE = 16384


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    a: str = "f16"
    b: str = "f16"
    half: bool = False
    rows: int = 128
    columns: int = 32
    a_span: int = 16
    b_span: int = 16
    a_turned: bool = False
    b_turned: bool = False
    negated: tuple[bool, bool] = (False, False)
    wild: bool = False  # any bits: infinities, NaN, subnormals
    lane: int = 0
    stationary: bool = False  # weights

    @property
    def depth(self) -> int:
        return 256 // max(8, M.FORMATS[self.a][0] if self.a in M.FORMATS else 8)

    @property
    def described(self) -> int:
        a, b = _FIELDS[self.a][1], _FIELDS[self.b][1]
        d = 2 if self.a in ("u8", "s8") else 1 - self.half
        found = d << 4 | a << 7 | b << 10 | self.columns // 8 << 17 | self.rows // 16 << 24
        found |= self.a_turned << 15 | self.b_turned << 16
        return found | self.negated[0] << 13 | self.negated[1] << 14


def _descriptor(span: int, turned: bool, rows: int, size: int) -> tuple[int, int]:
    """Return what a descriptor holds beside its start, and the leading bytes of the image."""
    groups = rows * size // 16
    leading = 128 if not turned else (groups * 128 if span == 16 else 32 * span)
    stride = 256 if span == 16 and not turned else (128 if span == 16 else 8 * span)
    fields = leading // 16 << 16 | stride // 16 << 32 | 1 << 46 | _MODES[span] << 61
    return fields, leading


def _codes(
    random: np.random.Generator, name: str, shape: tuple[int, int], wild: bool
) -> NDArray[np.int64]:
    bits = M.FORMATS[name][0] if name in M.FORMATS else 8
    found = random.integers(0, 1 << bits, shape)
    if wild or name not in M.FORMATS:
        return found
    # Exponents near each other, so that every term of a sum counts.
    _, exponents, stored, bias = M.FORMATS[name]
    if bits <= 8:
        return np.where(np.isfinite(M.decode(found, name)[0]), found, 0)
    total = 32 if name == "tf32" else bits
    shift = total - 1 - exponents
    field = random.integers(bias - 6, bias + 6, shape)
    low = random.integers(0, 1 << shift, shape)
    assert stored
    return random.integers(0, 2, shape) << (total - 1) | field << shift | low


def _image(
    codes: NDArray[np.int64], name: str, span: int, turned: bool
) -> tuple[NDArray[np.uint8], int]:
    size = max(8, M.FORMATS[name][0] if name in M.FORMATS else 8) // 8
    fields, leading = _descriptor(span, turned, codes.shape[0], size)
    if turned:
        packed = M.pack(np.ascontiguousarray(codes.T), name)
        return M.mn_major(packed, size, span, _IMAGE, leading), fields
    return M.k_major(M.pack(codes, name), span, _IMAGE), fields


def _bits(c: NDArray[np.generic]) -> NDArray[np.uint32]:
    return c.view(np.uint16).astype(np.uint32) if c.itemsize == 2 else c.view(np.uint32)


def _lanes(rows: int, lane: int) -> NDArray[np.int64]:
    row = np.arange(rows)
    return row if rows == 128 else row // 16 * 32 + row % 16 + lane


def _banked(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return D of a weight-stationary product in 128 lanes: columns go on in the lanes below."""
    banks = 128 // matrix.shape[0]
    return np.concatenate(np.split(matrix, banks, axis=1))


_CASES = (
    _Case(), _Case(columns=16, rows=64), _Case(columns=8, rows=64, lane=16), _Case(columns=64),
    _Case(wild=True), _Case(half=True), _Case(half=True, wild=True), _Case(a="bf16", b="bf16"),
    _Case(a="bf16", b="bf16", wild=True), _Case(a="bf16", b="f16"), _Case(a="tf32", b="tf32"),
    _Case(a="tf32", b="tf32", wild=True), _Case(a="e4m3", b="e4m3"),
    _Case(a="e5m2", b="e4m3", wild=True),
    _Case(a="e4m3", b="e5m2", half=True), _Case(a="e2m1", b="e2m1"), _Case(a="e3m2", b="e2m3"),
    _Case(a="e2m3", b="e4m3"), _Case(a="e2m1", b="e5m2", wild=True), _Case(a="u8", b="u8"),
    _Case(a="s8", b="u8"), _Case(a="s8", b="s8", rows=64), _Case(a_span=128, b_span=64),
    _Case(a_span=32, b_span=128), _Case(a_turned=True, b_turned=True),
    _Case(a_turned=True, b_turned=True, a_span=128, b_span=64),
    _Case(b_turned=True, b_span=32, a_span=64), _Case(a="e4m3", b="e4m3", b_turned=True, b_span=32),
    _Case(negated=(True, False)), _Case(negated=(True, True), a="bf16", b="bf16"),
    _Case(a="s8", b="s8", b_span=128), _Case(rows=32, columns=64, stationary=True),
    _Case(rows=64, columns=128, stationary=True, a="bf16", b="bf16"),
    _Case(rows=128, columns=64, stationary=True, b_span=64),
    _Case(rows=32, columns=128, stationary=True, a="e4m3", b="e5m2"), _Case(columns=8),
    _Case(a="s8", b="u8", columns=8), _Case(a="e4m3", b="e5m2", columns=8),
)  # fmt: skip


@pytest.mark.parametrize(
    "case",
    _CASES,
    ids=lambda one: f"{one.a}-{one.b}-{one.described:x}-{one.a_span}-{one.b_span}-{one.wild}",
)
def test_a_product_is_that_of_the_model(case: _Case) -> None:
    random = np.random.default_rng(case.described)
    a = _codes(random, case.a, (case.rows, case.depth), case.wild)
    b = _codes(random, case.b, (case.columns, case.depth), case.wild)
    a_image, a_fields = _image(a, case.a, case.a_span, case.a_turned)
    b_image, b_fields = _image(b, case.b, case.b_span, case.b_turned)
    shape = case.rows, case.columns
    c: NDArray[Any]
    expected: NDArray[Any]
    if case.a in ("u8", "s8"):
        x, y = (
            one.astype(np.uint8).view(np.int8 if name == "s8" else np.uint8).astype(np.int64)
            for one, name in ((a, case.a), (b, case.b))
        )
        c = random.integers(-(2**31), 2**31, shape).astype(np.int32)
        expected = (x @ y.T + c).astype(np.uint32).view(np.int32)
    else:
        c = random.standard_normal(shape).astype(np.float16 if case.half else np.float32)
        c[::3] *= c.dtype.type(2.0**6)
        decoded = M.decode(a, case.a), M.decode(b, case.b)
        signs = [-1.0 if one else 1.0 for one in case.negated]
        factors = [(one[0] * sign, one[1]) for one, sign in zip(decoded, signs, strict=True)]
        expected = M.sums(factors[0], factors[1], c)
    wide = case.columns * case.rows // 128 if case.stationary else case.columns
    if case.stationary:
        c, expected = _banked(c), _banked(expected)
        shape = c.shape
    lanes = np.arange(128) if case.stationary else _lanes(case.rows, case.lane)
    cells = np.full((128, wide), 7, np.uint32)
    cells[lanes] = _bits(c)
    text = K.moved(
        kind=_FIELDS[case.a][0], described=case.described, a=a_fields, b=b_fields,
        columns=wide, image=_IMAGE, lane=case.lane,
    )  # fmt: skip
    if case.stationary:
        text = text.replace("tcgen05.mma.cta_group", "tcgen05.mma.ws.cta_group")
    report, buffers = K.execute(text, (a_image, b_image, cells))
    assert (report.inconclusive, report.findings) == (None, ())
    found = buffers[2].data.view(np.uint32).reshape(cells.shape)
    nan = np.isnan(expected) if expected.dtype.kind == "f" else np.zeros(shape, bool)
    wanted = np.where(nan, 0x7FFF if case.half else 0x7FFFFFFF, _bits(expected))
    np.testing.assert_array_equal(found[lanes], wanted)
    rest = np.setdiff1d(np.arange(128), lanes)
    assert (found[rest] == 7).all()


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (_Case(a="s8", b="s8", columns=40), "i8"),
        (_Case(a="e4m3", b="e4m3", columns=8, b_turned=True, b_span=32), "f8f6f4"),
    ],
)
def test_columns_that_a_kind_does_not_have_are_told(case: _Case, kind: str) -> None:
    """Of 8-bit integers from 32 columns on, and of a transposed B of 8 bits, every 16th."""
    given = np.zeros(_IMAGE, np.uint8), np.zeros(_IMAGE, np.uint8), np.zeros((128, 64), np.uint32)
    text = K.moved(
        kind=kind, described=case.described, a=1 << 46, b=1 << 46, columns=64, image=_IMAGE
    )
    report, _ = K.execute(text, given)
    texts = [one.text for one in report.wrong]
    assert any(f"N = {case.columns}, which this M does not have" in one for one in texts), texts


@pytest.mark.parametrize(("rows", "lane"), [(128, 0), (64, 0), (64, 16)])
def test_a_may_lie_in_tensor_memory(rows: int, lane: int) -> None:
    random = np.random.default_rng(5)
    a = random.standard_normal((rows, 16)).astype(np.float16)
    b = random.standard_normal((32, 16)).astype(np.float16)
    c = random.standard_normal((rows, 32)).astype(np.float32)
    case, lanes = _Case(rows=rows), _lanes(rows, lane)
    b_image, b_fields = _image(b.view(np.uint16).astype(np.int64), "f16", 16, False)
    text = K.moved(
        kind="f16", described=case.described, a=0, b=b_fields, columns=32, image=_IMAGE, inside=8,
        lane=lane,
    )  # fmt: skip
    text = text.replace("add.u32 %r25, %r7, 32;", f"add.u32 %r25, %r7, {lane << 16 | 32};")
    padded = np.zeros((_IMAGE // 32, 16), np.float16)
    padded[lanes] = a
    cells = np.zeros((128, 32), np.float32)
    cells[lanes] = c
    given = padded.view(np.uint8).ravel(), b_image, cells.view(np.uint32)
    report, buffers = K.execute(text, given)
    assert (report.inconclusive, report.findings) == (None, ())
    x, y = (M.decode(one.view(np.uint16), "f16") for one in (a, b))
    found = buffers[2].data.view(np.float32).reshape(cells.shape)[lanes]
    np.testing.assert_array_equal(found, M.sums(x, y, c))


@pytest.mark.parametrize("form", ["tf32", "f16"])
def test_a_is_shifted_behind_a_product(form: str) -> None:
    """As NVIDIA's example of .ashift: a second product of the same A has row r + 1 for row r."""
    random = np.random.default_rng(9)
    case = _Case(a=form, b=form)
    a, b = (_codes(random, form, (rows, case.depth), False) for rows in (128, 32))
    b_image, b_fields = _image(b, form, 16, False)
    text = K.moved(
        kind=form, described=case.described, a=0, b=b_fields, columns=32, image=_IMAGE, inside=8
    )
    (line,) = (one for one in text.splitlines() if "tcgen05.mma" in one)
    again = line.replace("%p5", "%p6")
    twice = line.replace(f"kind::{form}", f"kind::{form}.ashift")
    text = text.replace(line, f"{twice}\nsetp.ne.u32 %p6, %r2, %r2;\n{again}")
    padded = np.zeros((_IMAGE // 32, 32), np.uint8)
    padded[:128] = M.pack(a, form).reshape(128, 32)
    cells = np.zeros((128, 32), np.uint32)
    report, buffers = K.execute(text, (padded.ravel(), b_image, cells))
    assert (report.inconclusive, report.findings) == (None, ())
    shifted = a[np.arange(128) + (np.arange(128) % 32 < 31)]
    factors = M.decode(shifted, form), M.decode(b, form)
    expected = M.sums(*factors, np.zeros((128, 32), np.float32))
    found = buffers[2].data.view(np.float32).reshape(cells.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["e2m1", "e3m2", "e2m3"])
def test_small_elements_of_a_lie_in_the_middle_of_bytes_of_tensor_memory(form: str) -> None:
    random = np.random.default_rng(10)
    case, bits = _Case(a=form, b="e4m3"), M.FORMATS[form][0]
    a, b = (_codes(random, name, (rows, 32), False) for name, rows in ((form, 128), ("e4m3", 32)))
    b_image, b_fields = _image(b, "e4m3", 16, False)
    text = K.moved(
        kind="f8f6f4", described=case.described, a=0, b=b_fields, columns=32, image=_IMAGE,
        inside=8,
    )  # fmt: skip
    padded = np.zeros((_IMAGE // 32, 32), np.uint8)
    padded[:128] = a << (8 - bits) // 2 | random.integers(0, 2, a.shape) << 7  # not read
    c = random.standard_normal((128, 32)).astype(np.float32)
    report, buffers = K.execute(text, (padded.ravel(), b_image, c.view(np.uint32)))
    assert (report.inconclusive, report.findings) == (None, ())
    found = buffers[2].data.view(np.float32).reshape(c.shape)
    expected = M.sums(M.decode(a, form), M.decode(b, "e4m3"), c)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("differs", [False, True])
def test_a_of_a_pair_with_128_rows_lies_twice_in_tensor_memory(differs: bool) -> None:
    random = np.random.default_rng(8)
    a = random.standard_normal((128, 16)).astype(np.float16)
    b = random.standard_normal((32, 16)).astype(np.float16)
    images = [
        _image(one.view(np.uint16).astype(np.int64), "f16", 16, False) for one in (b[:16], b[16:])
    ]
    padded = np.zeros((2, _IMAGE // 32, 16), np.float16)
    padded[:, :64] = padded[:, 64:128] = a.reshape(2, 64, 16)
    padded[1, 70, 3] += 1 if differs else 0
    text = K.moved(
        kind="f16", described=1 << 4 | 4 << 17 | 8 << 24, a=0, b=images[0][1], columns=16,
        image=_IMAGE, inside=8,
    )  # fmt: skip
    text = K.paired(text, images=_IMAGE, cells=128 * 4 * 16)
    arrays = padded.view(np.uint8).ravel(), np.concatenate([one for one, _ in images])
    cells = np.zeros((2, 128, 16), np.float32)
    report, buffers = K.execute(text, (*arrays, cells), cluster=2, blocks=2)
    assert report.inconclusive is None
    if differs:
        (one,) = report.wrong
        assert "lanes 0 to 63 and 64 to 127 have to hold the same, and lane 6 differs" in one.text
        return
    assert not report.findings
    x, y = (M.decode(one.view(np.uint16), "f16") for one in (a, b))
    sums = M.sums(x, y, np.zeros((128, 32), np.float32)).astype(np.float32)
    expected = sums.reshape(2, 64, 2, 16).transpose(0, 2, 1, 3).reshape(cells.shape)
    np.testing.assert_array_equal(buffers[2].data.view(np.float32).reshape(cells.shape), expected)


def test_lanes_are_left_out_and_the_accumulator_is_halved() -> None:
    random = np.random.default_rng(6)
    a, b = K.inputs(6)
    c = random.integers(-64, 64, (128, 32)).astype(np.float32)
    case, b = _Case(), b[:32]
    (a_image, a_fields), (b_image, b_fields) = (
        _image(one.view(np.uint16).astype(np.int64), "f16", 16, False) for one in (a, b)
    )
    text = K.moved(
        kind="f16", described=case.described, a=a_fields, b=b_fields, columns=32, image=_IMAGE,
        rest="{%v200, %v201, %v202, %v203}, ", repeats=", 3",
    ).replace("tcgen05.alloc", "mov.b32 %v200, 5; mov.b32 %v201, 0; mov.b32 %v202, -1; "
              "mov.b32 %v203, 0x80000000;\n@%p1 tcgen05.alloc", 1)  # fmt: skip
    text = text.replace("@%p1 mov.b32", "mov.b32")
    report, buffers = K.execute(text, (a_image, b_image, c.view(np.uint32)))
    assert (report.inconclusive, report.findings) == (None, ())
    expected = c / 8 + a.astype(np.float32) @ b.astype(np.float32).T
    left = [0, 2, *range(64, 96), 127]
    expected[left] = c[left]
    found = buffers[2].data.view(np.float32).reshape(c.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mma.cta_group::1.kind::f16", "mma.ws.cta_group::1.kind::mxf4", "is no weight-stationary"),
        (
            "mma.cta_group::1.kind::f16 [%r7], %rd7, %rd8, %r9, %p5",
            "mma.ws.cta_group::1.kind::f16 [%r7], %rd7, %rd8, %r9, %p5, 549755813889",
            "a zero-column mask",
        ),
        ("kind::f16", "kind::f99", "has a kind that is not covered"),
    ],
)
def test_what_is_not_covered_is_named(old: str, new: str, said: str) -> None:
    a, b = K.inputs(7)
    text = K.PRODUCT.replace(old, new)
    report, _ = K.execute(text, (a, b, np.zeros((128, 64), np.float32)))
    assert report.inconclusive is not None
    assert re.search(said, report.inconclusive)


@pytest.mark.parametrize("rows", [128, 256])
def test_a_pair_of_blocks_shares_a_product(rows: int) -> None:
    random = np.random.default_rng(rows)
    columns, half = 32, rows // 2
    a = random.standard_normal((rows, 16)).astype(np.float16)
    b = random.standard_normal((columns, 16)).astype(np.float16)
    c = random.standard_normal((rows, columns)).astype(np.float32)
    images = [
        [_image(one.view(np.uint16).astype(np.int64), "f16", 16, False) for one in parts]
        for parts in ((a[:half], a[half:]), (b[:16], b[16:]))
    ]
    wide = 32 if rows == 256 else 16

    def cells_of(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """A block has 128 rows, or 64 whose upper columns lie in the lanes from 64 on."""
        if rows == 256:
            return matrix.reshape(2, 128, 32)
        return matrix.reshape(2, 64, 2, 16).transpose(0, 2, 1, 3).reshape(2, 128, 16)

    described = 1 << 4 | columns // 8 << 17 | rows // 16 << 24
    text = K.moved(
        kind="f16", described=described, a=images[0][0][1], b=images[1][0][1], columns=wide,
        image=_IMAGE,
    )  # fmt: skip
    text = K.paired(text, images=_IMAGE, cells=128 * 4 * wide)
    arrays = [np.concatenate([one for one, _ in operand]) for operand in images]
    cells = np.ascontiguousarray(cells_of(c))
    report, buffers = K.execute(text, (*arrays, cells), cluster=2, blocks=2)
    assert (report.inconclusive, report.findings) == (None, ())
    x, y = (M.decode(one.view(np.uint16), "f16") for one in (a, b))
    found = buffers[2].data.view(np.float32).reshape(cells.shape)
    np.testing.assert_array_equal(found, cells_of(M.sums(x, y, c).astype(np.float32)))


_SCALED = (
    ("mxf8f6f4", "scale_vec::1X", "e4m3", "ue8m0", 0), ("mxf8f6f4", "block32", "e2m1", "ue8m0", 0),
    ("mxf4", "scale_vec::2X", "e2m1", "ue8m0", 0),
    ("mxf4nvf4", "scale_vec::4X", "e2m1", "ue4m3", 0), ("mxf4nvf4", "block16", "e2m1", "ue8m0", 0),
    ("mxf4nvf4", "block16", "e2m1", "ue8m0", 1 << 12),  # CuTe DSL's version of sparsity
)  # fmt: skip


@pytest.mark.parametrize(("kind", "vector", "form", "scale", "more"), _SCALED)
def test_blocks_along_k_have_scales(
    kind: str, vector: str, form: str, scale: str, more: int
) -> None:
    random = np.random.default_rng(len(kind) + len(vector))
    columns, depth = 64, 32 if kind == "mxf8f6f4" else 64
    count = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[kind]
    a, b = (_codes(random, form, (rows, depth), False) for rows in (128, columns))
    c = (random.standard_normal((128, columns)) * 16).astype(np.float32)
    if scale == "ue8m0":
        scales = [random.integers(120, 134, (rows, count)) for rows in (128, columns)]
    else:
        scales = [random.integers(0, 127, (rows, count)) for rows in (128, columns)]
    if kind == "mxf8f6f4":
        (a_image, fields), (b_image, _) = (_image(one, form, 16, False) for one in (a, b))
    else:
        packed = [(one[:, ::2] | one[:, 1::2] << 4).astype(np.uint8) for one in (a, b)]
        a_image, b_image = (M.k_major(one, 16, _IMAGE) for one in packed)
        fields = _descriptor(16, False, 128, 1)[0]
    words = np.zeros((128, 8), np.uint32)  # lane row % 32, column row / 32, a byte a block
    for first, codes in zip((0, 4), scales, strict=True):
        for (row, index), code in np.ndenumerate(codes):
            for quarter in range(4):
                words[row % 32 + 32 * quarter, first + row // 32] |= np.uint32(code) << 8 * index
    field = 1 if depth == 64 else _FIELDS[form][1]
    described = field << 7 | field << 10 | columns // 8 << 17 | 1 << 27
    described |= (scale == "ue8m0") << 23 | more
    text = K.moved(
        kind=f"{kind}.block_scale.{vector}", described=described, a=fields, b=fields,
        columns=columns, image=_IMAGE, scales=8, rest="[%r25], [%r27], ",
    )  # fmt: skip
    image = np.concatenate([a_image, words.view(np.uint8).ravel()])
    report, buffers = K.execute(text, (image, b_image, c.view(np.uint32)))
    assert (report.inconclusive, report.findings) == (None, ())
    found = buffers[2].data.view(np.float32).reshape(c.shape)
    expected = M.scaled_sums(M.decode(a, form), M.decode(b, form), c, scales, scale)
    np.testing.assert_array_equal(found, expected)


def _deep(
    kind: str, vector: str, start: int, *, arch: int = 103, more: int = 0
) -> tuple[MachineReport, NDArray[np.float32], NDArray[np.float32]]:
    """Return the report, D and the expected D of 96 elements along K, from byte `start` of a row.

    What of them lies behind the 128 bytes of a row is at its beginning, where the absolute leading
    dimension leads. `more`: bits of the instruction descriptor.
    """
    random = np.random.default_rng(start)
    columns, depth, image = 64, 96, 1 << 14
    count = 6 if vector == "block16" else 3
    a, b = (_codes(random, "e2m1", (rows, depth), False) for rows in (128, columns))
    c = (random.standard_normal((128, columns)) * 16).astype(np.float32)
    scales = [random.integers(120, 134, (rows, count)) for rows in (128, columns)]
    images = []
    for one in (a, b):
        rows = np.zeros((one.shape[0], 128), np.uint8)
        rows[:, (start + np.arange(48)) % 128] = one[:, ::2] | one[:, 1::2] << 4
        images.append(M.k_major(rows, 128, image))
    words = np.zeros((128, 16), np.uint32)  # lane row % 32, column row / 32, four blocks in each
    for first, codes in zip((0, 8), scales, strict=True):
        for (row, index), code in np.ndenumerate(codes):
            for quarter in range(4):
                column = first + 4 * (index // 4) + row // 32
                words[row % 32 + 32 * quarter, column] |= np.uint32(code) << 8 * (index % 4)
    described = 1 << 7 | 1 << 10 | columns // 8 << 17 | 1 << 23 | 1 << 27 | 1 << 31 | more
    fields = start // 16 | 64 << 32 | 1 << 46 | 1 << 52 | 2 << 61
    text = K.moved(
        kind=f"{kind}.block_scale.{vector}", described=described, a=fields, b=fields,
        columns=columns, image=image, scales=16, rest="[%r25], [%r27], ",
    )  # fmt: skip
    text = text.replace("add.u32 %r27, %r25, 4;", "add.u32 %r27, %r25, 8;")
    leading = r"\g<0> shl.b64 %rd20, %rd\1, 16; or.b64 %rd\1, %rd\1, %rd20;"
    text = re.sub(r"cvt\.u64\.u32 %rd([78]), %r22;", leading, text)
    first_image = np.concatenate([images[0], words.view(np.uint8).ravel()])
    report, buffers = K.execute(text, (first_image, images[1], c.view(np.uint32)), arch=arch)
    expected = M.scaled_sums(M.decode(a, "e2m1"), M.decode(b, "e2m1"), c, scales, "ue8m0")
    return report, buffers[2].data.view(np.float32).reshape(c.shape), expected


@pytest.mark.parametrize(("kind", "vector"), [("mxf4", "block32"), ("mxf4nvf4", "block16")])
@pytest.mark.parametrize("start", [0, 48, 96, 112])
def test_96_elements_along_k_go_on_where_the_leading_dimension_leads(
    kind: str, vector: str, start: int
) -> None:
    report, found, expected = _deep(kind, vector, start)
    assert (report.inconclusive, report.findings) == (None, ())
    np.testing.assert_array_equal(found, expected)


def test_sm_100_multiplies_no_96_elements() -> None:
    report, _, _ = _deep("mxf4nvf4", "block16", 0, arch=100)
    assert Kind.TENSOR_MEMORY in {one.kind for one in report.wrong}


def test_another_depth_is_not_covered() -> None:
    report, _, _ = _deep("mxf4nvf4", "block16", 0, more=1 << 3)
    assert report.inconclusive is not None
    assert "depth" in report.inconclusive


_COPIES = {
    "128x256b": [[(row, row)] for row in range(128)],
    "128x128b": [[(row, row)] for row in range(128)],
    "64x128b.warpx2::02_13": [[(row, row), (row, row + 64)] for row in range(64)],
    "64x128b.warpx2::01_23": [
        [(row, row % 32 + 64 * (row // 32) + 32 * copy) for copy in range(2)] for row in range(64)
    ],
    "32x128b.warpx4": [[(row, row + 32 * copy) for copy in range(4)] for row in range(32)],
}


@pytest.mark.parametrize("shape", sorted(_COPIES))
def test_rows_are_copied_to_their_lanes(shape: str) -> None:
    random = np.random.default_rng(len(shape))
    cells = 8 if "256b" in shape else 4
    rows = len(_COPIES[shape])
    matrix = random.integers(0, 256, (rows, 32), np.uint8)
    matrix[:, 4 * cells :] = 0
    image = M.k_major(matrix, 16, 8192)
    text = K.copied(
        shape=shape, descriptor=_descriptor(16, False, rows, 2)[0], image=8192, columns=8
    )
    given = np.zeros((128, 8), np.uint32)
    report, buffers = K.execute(text, (image, given, given))
    assert (report.inconclusive, report.findings) == (None, ())
    expected = np.full((128, 8), 7, np.uint32)
    for lanes in _COPIES[shape]:
        for row, lane in lanes:
            expected[lane, :cells] = matrix[row].view(np.uint32)[:cells]
    np.testing.assert_array_equal(buffers[2].data.view(np.uint32).reshape(128, 8), expected)


@pytest.mark.parametrize(("name", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_a_copy_unpacks_small_elements(name: str, bits: int) -> None:
    random = np.random.default_rng(bits)
    codes = random.integers(0, 1 << bits, (128, 2, 16))
    packed = np.zeros((128, 2, 16), np.uint8)
    flat = (codes[..., None] >> np.arange(bits) & 1).reshape(128, 2, 16 * bits)
    packed[..., : 2 * bits] = np.packbits(flat.astype(np.uint8), axis=-1, bitorder="little")
    packed[..., 2 * bits :] = 0xAA  # what pads is not read
    text = K.copied(
        shape=f"128x256b.b8x16.{name}", descriptor=_descriptor(16, False, 128, 2)[0], image=8192,
        columns=8,
    )  # fmt: skip
    given = np.zeros((128, 8), np.uint32)
    image = M.k_major(packed.reshape(128, 32), 16, 8192)
    report, buffers = K.execute(text, (image, given, given))
    assert (report.inconclusive, report.findings) == (None, ())
    expected = (codes << (8 - bits) // 2).astype(np.uint8).reshape(128, 32)
    np.testing.assert_array_equal(buffers[2].data.view(np.uint8).reshape(128, 32), expected)

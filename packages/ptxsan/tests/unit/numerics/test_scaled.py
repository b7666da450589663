"""mma.sync of sm_120 with factors of 4, 6 and 8 bits, and with scales, against a model in NumPy.

Fragments and the places of scales are those of the PTX manual ("Matrix Fragments for mma.m16n8k32"
and k64, "Block Scaling"); sums those of MMA-Sim (tensor_model.py).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.errors import MachineError
from ptxsan.findings import Kind
from ptxsan.launch import Buffer
from ptxsan.options import Options
from ptxsan_fuzz.execute import run_text
from ptxsan_support import tensor_model as M
from ptxsan_support.ptx import buffer_of, execute, kernel

pytest.importorskip("numba")
_PLAIN = Options(arch=120, shadow=False, races=False, workers=1)
_WORDS = 4 + 2 + 4 + 2  # of a lane: A, B, C, scales of A and B


def _module(opcode: str, rest: str = "") -> str:
    """Return a kernel of one warp: each lane loads its words, multiplies, and stores four sums."""
    loads = "".join(f"ld.global.b32 %r{2 + at}, [%rd3+{4 * at}];\n" for at in range(_WORDS))
    stores = "".join(f"st.global.b32 [%rd4+{4 * at}], %r{20 + at};\n" for at in range(4))
    body = (
        f"mul.wide.u32 %rd3, %r1, {4 * _WORDS}; add.u64 %rd3, %rd1, %rd3;\n"
        f"mul.wide.u32 %rd4, %r1, 16; add.u64 %rd4, %rd2, %rd4;\n{loads}"
        f"{opcode} {{%r20, %r21, %r22, %r23}}, {{%r2, %r3, %r4, %r5}}, {{%r6, %r7}}, "
        f"{{%r8, %r9, %r10, %r11}}{rest};\n{stores}"
    )
    return kernel(body).replace(".version 8.4\n.target sm_90a", ".version 8.8\n.target sm_120a")


def _dealt(
    a: NDArray[np.int64], b: NDArray[np.int64], c: NDArray[np.float32], bits: int
) -> NDArray[np.uint32]:
    """Return the words of every lane: A [16, K] and B [8, K] as codes of `bits`, C [16, 8]."""
    words = np.zeros((32, _WORDS), np.uint32)
    each = 32 // bits
    sums = c.view(np.uint32)
    for lane in range(32):
        group, member = lane // 4, lane % 4
        for register in range(6):
            matrix = a if register < 4 else b
            row = group + 8 * (register % 2) if register < 4 else group
            first = 4 * each * (register // 2 if register < 4 else register - 4) + each * member
            for element in range(each):
                code = int(matrix[row, first + element])
                words[lane, register] |= np.uint32(code << bits * element)
        for number in range(4):
            words[lane, 6 + number] = sums[group + 8 * (number // 2), 2 * member + number % 2]
    return words


def _sums(stored: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return D [16, 8] from what the lanes stored."""
    result = np.empty((16, 8), np.uint32)
    for lane, number in np.ndindex(32, 4):
        at = lane // 4 + 8 * (number // 2), 2 * (lane % 4) + number % 2
        result[at] = stored[lane, number]
    return result


def _codes(random: np.random.Generator, name: str, shape: tuple[int, int]) -> NDArray[np.int64]:
    found = random.integers(0, 1 << M.FORMATS[name][0], shape)
    return np.where(np.isfinite(M.decode(found, name)[0]), found, 0)


def _contained(codes: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    return codes << 2 if name == "e2m1" else codes


@pytest.mark.parametrize(
    ("a", "b"),
    [("e2m1", "e2m1"), ("e3m2", "e2m3"), ("e2m3", "e4m3"), ("e5m2", "e2m1"), ("e4m3", "e5m2")],
)
def test_factors_of_four_and_six_bits_lie_in_bytes(a: str, b: str) -> None:
    random = np.random.default_rng(len(a + b))
    x, y = _codes(random, a, (16, 32)), _codes(random, b, (8, 32))
    c = (random.standard_normal((16, 8)) * 16).astype(np.float32)
    words = _dealt(_contained(x, a), _contained(y, b), c, 8)
    opcode = f"mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.{a}.{b}.f32"
    found = _sums(run_text(_module(opcode), "k", words, 4, (1, 32), options=_PLAIN))
    expected = M.sums(M.decode(x, a), M.decode(y, b), c).astype(np.float32)
    np.testing.assert_array_equal(found, expected.view(np.uint32))


_FORMS = (
    ("mxf8f6f4", "", "e4m3", "e4m3", "ue8m0", 1),
    ("mxf8f6f4", ".scale_vec::1X", "e2m1", "e3m2", "ue8m0", 1),
    ("mxf8f6f4", "", "e2m3", "e5m2", "ue8m0", 1), ("mxf4", "", "e2m1", "e2m1", "ue8m0", 2),
    ("mxf4nvf4", ".scale_vec::2X", "e2m1", "e2m1", "ue8m0", 2),
    ("mxf4nvf4", ".scale_vec::4X", "e2m1", "e2m1", "ue4m3", 4),
    ("mxf4nvf4", ".scale_vec::4X", "e2m1", "e2m1", "ue8m0", 4),
)  # fmt: skip


@pytest.mark.parametrize("chosen", [(0, 0, 0, 0), (2, 1, 2, 3)])
@pytest.mark.parametrize(("kind", "vector", "a", "b", "scale", "count"), _FORMS)
def test_blocks_along_k_are_scaled(
    kind: str, vector: str, a: str, b: str, scale: str, count: int, chosen: tuple[int, ...]
) -> None:
    byte_a, thread_a, byte_b, thread_b = chosen if count < 4 else (0, chosen[1], 0, chosen[3])
    depth, bits = (32, 8) if kind == "mxf8f6f4" else (64, 4)
    random = np.random.default_rng(depth + count)
    x, y = _codes(random, a, (16, depth)), _codes(random, b, (8, depth))
    c = (random.standard_normal((16, 8)) * 16).astype(np.float32)
    low, high = (120, 134) if scale == "ue8m0" else (0, 127)
    scales = [random.integers(low, high, (rows, count)) for rows in (16, 8)]
    contained = (_contained(x, a), _contained(y, b)) if bits == 8 else (x, y)
    words = _dealt(*contained, c, bits)
    words[:, 10:] = random.integers(0, 1 << 32, (32, 2))  # nobody reads what is not chosen
    for at, of_a in ((10, True), (11, False)):
        byte = byte_a if of_a else byte_b
        for (row, index), code in np.ndenumerate(scales[0 if of_a else 1]):
            lane = 4 * (row % 8) + (2 * thread_a + row // 8 if of_a else thread_b)
            shift = 8 * (byte + index)
            words[lane, at] &= ~np.uint32(255 << shift)
            words[lane, at] |= np.uint32(int(code) << shift)
    opcode = (
        f"mov.b16 %h1, {byte_a}; mov.b16 %h2, {thread_a}; mov.b16 %h3, {byte_b}; "
        f"mov.b16 %h4, {thread_b};\nmma.sync.aligned.kind::{kind}.block_scale{vector}.m16n8k{depth}"
        f".row.col.f32.{a}.{b}.f32.{scale}"
    )
    one = "{%r12}" if any(chosen) else "%r12"  # CUTLASS writes both scales in braces
    text = _module(opcode, f", {one}, {{%h1, %h2}}, %r13, {{%h3, %h4}}")
    found = _sums(run_text(text, "k", words, 4, (1, 32), options=_PLAIN))
    expected = M.scaled_sums(M.decode(x, a), M.decode(y, b), c, scales, scale)
    np.testing.assert_array_equal(found, expected.astype(np.float32).view(np.uint32))


def test_a_scale_that_nobody_wrote_is_found() -> None:
    opcode = "mma.sync.aligned.kind::mxf4.block_scale.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0"
    text = _module(opcode, ", %r12, {0, 0}, %r13, {0, 0}")
    data: NDArray[Any] = np.zeros((32, _WORDS), np.uint32)
    written = np.ones((32, _WORDS, 4), bool)
    written[8, 10] = False  # lane 8 has the scales of row 2 of A
    given = Buffer(name="x", data=buffer_of(data).data, initialised=written.ravel())
    options = Options(arch=120)
    outcome = execute(text, given, buffer_of(np.zeros((32, 4), np.float32)), options=options)
    assert Kind.UNINITIALISED in {one.kind for one in outcome.findings}
    written[8, 10], written[10, 10] = True, False  # lane 10 has scales that nobody chose
    given = Buffer(name="x", data=buffer_of(data).data, initialised=written.ravel())
    outcome = execute(text, given, buffer_of(np.zeros((32, 4), np.float32)), options=options)
    assert outcome.findings == ()


@pytest.mark.parametrize(
    ("kind", "types", "said"),
    [
        ("kind::mxf4.block_scale.m16n8k64", "f32.e2m1.e2m1.f32.ue4m3", "does not have"),
        ("kind::mxf8f6f4.block_scale.m16n8k64", "f32.e4m3.e4m3.f32.ue8m0", "does not have"),
    ],
)
def test_what_a_kind_does_not_have_is_refused(kind: str, types: str, said: str) -> None:
    text = _module(f"mma.sync.aligned.{kind}.row.col.{types}", ", %r12, {0, 0}, %r13, {0, 0}")
    with pytest.raises(MachineError, match=re.escape(said)):
        run_text(text, "k", np.zeros((32, _WORDS), np.uint32), 4, (1, 32), options=_PLAIN)

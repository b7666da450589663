"""One edit of its instructions makes a wrong kernel right, and says which line it comes from."""

from __future__ import annotations

import base64
import hashlib
import json
import struct

import numpy as np
import pytest

from cuassay.build.cuda.nvrtc import find_nvrtc
from cuassay.build.machine.edited import edited
from cuassay.build.machine.instruction_edits import edits_of
from cuassay.model import serial
from cuassay.model.machine import EditedCall, EditedCalls, InstructionChange
from cuassay.model.recording import (
    RecordedLaunch,
    RecordedResult,
    Recording,
    Region,
    decode,
    encode,
)
from ptxsan.nvrtc import compile_ptx
from ptxsan.parser import parse

pytestmark = pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")
SCALED = """extern "C" __global__ void k(const float* x, const float* s, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float scale = s[i / GROUP];
  y[i] = x[i] * scale + TERM;
}"""
N = 300
X = np.linspace(-2.0, 3.0, N, dtype=np.float32)
S = np.linspace(1.0, 5.0, 40, dtype=np.float32)


def _call(
    group: int,
    term: str,
    *,
    digest: str | None = None,
    source: str = SCALED,
    left: np.ndarray | None = None,
) -> bytes:
    source = source.replace("GROUP", str(group)).replace("TERM", term)
    text = compile_ptx(source, arch="sm_90", flags=("-lineinfo",))
    x, s, y = 1 << 20, 1 << 21, 1 << 22
    launch = RecordedLaunch(
        module=0,
        kernel="k",
        grid=(-(-N // 128), 1, 1),
        block=(128, 1, 1),
        shared_bytes=0,
        arguments=(*(struct.pack("<Q", at) for at in (x, s, y)), struct.pack("<i", N)),
        regions=(
            Region(name="x", base=x, nbytes=4 * N),
            Region(name="s", base=s, nbytes=4 * len(S)),
            Region(name="y", base=y, nbytes=4 * N),
        ),
        contents={0: X.tobytes(), 1: S.tobytes(), 2: bytes(4 * N)},
    )
    given = (_right(group, float(term.rstrip("f"))) if left is None else left).tobytes()
    result = RecordedResult(
        name="y",
        dtype="float32",
        base=y,
        offset=0,
        shape=(N,),
        strides=(4,),
        digest=digest or hashlib.blake2b(given, digest_size=16).hexdigest(),
    )
    return encode(Recording(modules=(text,), launches=(launch,), results=(result,)))


def _right(group: int, term: float) -> np.ndarray:
    # A fused multiply and add rounds once.
    exact = X.astype(np.float64) * S[np.arange(N) // group].astype(np.float64) + term
    return exact.astype(np.float32)


def _edited(
    recording: bytes, keys: list[str] | None = None, *, leaving_out: bool = False
) -> EditedCalls:
    asked = {"limit_s": 30.0, "near": 5, "sizes": {"n": N}, "scalars": {}, "keys": keys}
    asked["leaving_out"] = leaving_out
    data = edited(memoryview(recording), memoryview(json.dumps(asked).encode()))
    found: EditedCalls = serial.loads(EditedCalls, data.decode())
    return found


def _repairs(calls: EditedCalls, group: int, term: float) -> list[EditedCall]:
    want = _right(group, term).tobytes()
    return [one for one in calls.calls if base64.b64decode(one.outputs[0]) == want]


def test_a_group_of_another_size_is_repaired_at_its_line() -> None:
    found = _repairs(_edited(_call(16, "0.5f")), 8, 0.5)
    assert {one.edit.line for one in found} == {4}
    assert InstructionChange.INDEX in {one.edit.change for one in found}


def test_a_constant_ten_times_too_large_is_repaired_at_its_line() -> None:
    found = _repairs(_edited(_call(8, "5.0f")), 8, 0.5)
    assert {(one.edit.change, one.edit.line) for one in found} == {(InstructionChange.NUMBER, 5)}


def test_of_keys_those_edits_alone_are_tried() -> None:
    call = _call(8, "5.0f")
    (first, *_) = _repairs(_edited(call), 8, 0.5)
    assert [one.edit.key for one in _edited(call, [first.edit.key, "unknown"]).calls] == [
        first.edit.key
    ]


def test_an_output_that_no_kernel_left_is_refused() -> None:
    found = _edited(_call(8, "0.5f", digest="0" * 32))
    assert not found.calls
    assert found.refused


def test_a_constant_of_which_no_multiple_fits_its_type_is_edited_too() -> None:
    """A maximum may begin at the least float."""
    found = _edited(_call(16, "-3.0e38f"))
    assert not found.refused
    assert any(one.edit.line == 4 for one in found.calls)


ROUNDED = """extern "C" __global__ void k(const float* x, const float* s, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = s[0];
#pragma unroll 1
  for (int j = 0;
       j < END;
       ++j) sum += 0.5f;
  y[i] = x[i] * sum;
}"""


@pytest.mark.parametrize(
    ("end", "terms"), [("n / 32 * 32", 288), ("n - (int)blockDim.x / 16", 292)]
)
def test_a_size_that_is_rounded_down_is_repaired_at_its_line(end: str, terms: int) -> None:
    def right(terms: int) -> np.ndarray:
        return X * np.float32(S[0] + 0.5 * terms)

    recording = _call(8, "0.5f", source=ROUNDED.replace("END", end), left=right(terms))
    module = parse(decode(recording).modules[0])
    every = edits_of(module, "k", ran=range(1000), sizes={}, scalars={})
    taken = [edit for edit, _ in every if edit.change is InstructionChange.PART and edit.line == 7]
    found = [
        one
        for one in _edited(recording, [edit.key for edit in taken]).calls
        if base64.b64decode(one.outputs[0]) == right(N).tobytes()
    ]
    assert found


def _kept_lines(group: int, term: str, source: str) -> tuple[set[int], set[int]]:
    """Return the lines of operations that may be left out of a call, and of those that may not."""
    found = _edited(_call(group, term, source=source), leaving_out=True)
    assert not found.refused
    assert not found.cut
    assert found.spent_s > 0
    same = {one.line for one in found.same}
    return same, {one.edit.line for one in found.calls} - same


def test_operations_that_change_nothing_in_a_call_are_told_by_their_lines() -> None:
    # A float near one number alone, and an integer that is zero for nearly all sizes.
    near = SCALED.replace(
        "  float scale",
        "  float far = x[i] - 77.0f;\n  float near = 1.0f / (1.0f + far * far * 1e20f);\n"
        "  int odd = n * 40503 % 65536 / 65500;\n  float scale",
    ).replace("+ TERM", "+ TERM + near * 1e-3f + odd")
    same, _ = _kept_lines(8, "0.5f", near)
    assert {5, 6} <= same
    assert 7 not in same


def _bits(alone: str) -> str:
    """Return a kernel with a number of bits of its sizes, which is zero but for one size."""
    return SCALED.replace(
        "  float scale",
        f"  int other = n ^ {alone};\n  int moved = 1 + ((other | -other) >> 31);\n  float scale",
    ).replace("x[i]", "x[(i + moved) % n]")


def test_a_sum_of_bits_of_sizes_that_is_always_zero_changes_nothing() -> None:
    same, _ = _kept_lines(8, "0.5f", _bits("2879"))
    assert {4, 5} & same
    source = _bits("2879").replace("GROUP", "8").replace("TERM", "0.5f")
    module = parse(compile_ptx(source, arch="sm_90", flags=("-lineinfo",)))
    every = edits_of(module, "k", ran=range(1000), sizes={}, scalars={}, leaving_out=True)
    assert {edit.line for edit, _ in every if "below" in edit.words} == {5}  # of no quotient


def test_operations_that_a_call_needs_are_not_left_out() -> None:
    same, needed = _kept_lines(8, "0.5f", SCALED)
    assert 5 in needed
    assert not same


def test_a_number_below_zero_is_said_as_it_is_written() -> None:
    """A loop that ends one short adds -1, which PTX holds as a number of 64 bits."""
    source = """extern "C" __global__ void k(float* y, long long n) {
  for (long long i = 0; i < n - 1; ++i) y[i] = 1.0f;
}"""
    module = parse(compile_ptx(source, arch="sm_90", flags=("-lineinfo",)))
    every = edits_of(module, "k", ran=range(1000), sizes={}, scalars={})
    words = {edit.words for edit, _ in every}
    assert any(one.startswith("0 for -1") for one in words), words
    assert not any("18446744073709551" in one for one in words)

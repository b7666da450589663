"""Whole calls in residues: torch before, between and after kernels, against a reference."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("numba")

from cuassay.algebra.follow import expressions
from cuassay.algebra.programs import match
from cuassay.build.cuda.nvrtc import compile_ptx, find_nvrtc
from cuassay.build.machine import candidates
from cuassay.model import serial
from cuassay.model.machine import EqualityEvidence
from cuassay.model.recording import decode, encode
from cuassay.model.steps import ReadRecording
from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.observe import recordings

SEEDS = (1, 2)
Function = Callable[..., Any]
needs_nvrtc = pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")


class _Host:
    """Holds one result, as the interpreter does."""

    def __init__(self, held: list[tuple[str, object]]) -> None:
        self._held = held

    def result(self, name: str) -> list[tuple[str, object]]:
        return self._held


def recorded(candidate: Function, inputs: Sequence[Tensor]) -> bytes:
    """Call a candidate once on copies of inputs; return its launches and torch's operations."""
    launcher = candidates.current
    assert launcher is not None
    launcher.recorder.start(operations=True)
    copies = [one.clone() for one in inputs]
    with launcher.arena.watching({}, (), launcher.recorder):
        answer = candidate(*copies)
    made = recordings.read(_Host([("y", answer)]), Around(), ReadRecording(result="r"))  # type: ignore[arg-type]
    return bytes(made.tensors[0].numpy())


def evidence(candidate: Function, reference: Function, *inputs: Tensor) -> EqualityEvidence:
    """Return how much of a candidate's answer is the reference's expression."""
    candidates.without_kernels()
    recording = recorded(candidate, inputs)
    expected = [expressions(reference, inputs, seed=seed) for seed in SEEDS]
    ((values, _),) = expected[0]
    parts = [values.detach().double().contiguous().reshape(-1).numpy().view(np.int64)]
    for ((_, slots),) in expected:
        assert slots is not None
        parts.append(slots.contiguous().reshape(-1).numpy())
    request = {"seeds": SEEDS, "limit_s": 20, "outputs": [(values.numel(), True)]}
    data = match(
        memoryview(recording),
        memoryview(b"".join(part.tobytes() for part in parts)),
        memoryview(json.dumps(request).encode()),
    )
    found: EqualityEvidence = serial.loads(EqualityEvidence, data.decode())
    return found


def drawn(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(7)
    return tuple(torch.randn(*shape, generator=draw) for shape in shapes)


# ---- torch alone ---------------------------------------------------------------------------------


def _linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b))


def _blocks(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The sum over columns in two halves, the bias first, written in place."""
    total = b.expand(x.shape[0], -1).clone()
    half = x.shape[1] // 2
    total.addmm_(x[:, :half], w[:, :half].t())
    torch.addmm(total, x[:, half:], w[:, half:].t(), out=total)
    return 0.5 * total * (1.0 + torch.erf(total * math.sqrt(0.5)))


def _one_off(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    found = _linear(x, w, b)
    found[2, 3] = found[2, 4]
    return found


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[1],), eps=1e-5)


def _by_squares(x: Tensor) -> Tensor:
    mean = x.sum(1, keepdim=True) / x.shape[1]
    spread = (x * x).mean(1, keepdim=True) - mean * mean
    return (x - mean) * torch.rsqrt(spread + 1e-5)


def _windows(x: Tensor) -> Tensor:
    return F.avg_pool1d(x[None], 3, stride=2, padding=1)[0]


def _unfolded(x: Tensor, *, first: int = 0, over: float = 3.0) -> Tensor:
    wide = F.pad(x, (1, 2))
    return wide.unfold(1, 3, 2)[:, first : first + x.shape[1] // 2 + x.shape[1] % 2].sum(2) / over


def _shifted(x: Tensor) -> Tensor:
    return F.pad(x, (0, 3)).unfold(1, 3, 2)[:, : (x.shape[1] + 1) // 2].sum(2) / 3.0


TWINS = {
    "sums in halves, in place": (_blocks, _linear),
    "variance from squares": (_by_squares, _norm),
    "windows as views": (_unfolded, _windows),
    "softmax by hand": (
        lambda x: torch.exp(x) / torch.exp(x).sum(1, keepdim=True),
        lambda x: F.softmax(x, 1),
    ),
    "a factor taken out": (lambda x: (x * 0.125).sum(0) * 8, lambda x: x.sum(0)),
}
FAULTS = {
    "one element": (_one_off, _linear),
    "no bias": (lambda x, w, b: F.gelu(x @ w.t()), _linear),
    "another form of gelu": (
        lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
        _linear,
    ),
    "no scale": (lambda x: x - x.mean(1, keepdim=True), _norm),
    "the other axis": (lambda x: F.layer_norm(x.t(), (x.shape[0],), eps=1e-5).t(), _norm),
    "another eps": (lambda x: F.layer_norm(x, (x.shape[1],), eps=1e-6), _norm),
    "a window off by one": (_shifted, _windows),
    "one divisor too few": (lambda x: _unfolded(x, over=2.0), _windows),
}
_SHAPES = {_linear: ((5, 6), (7, 6), (7,)), _norm: ((5, 8),), _windows: ((3, 9),)}


def _inputs(reference: Function) -> tuple[Tensor, ...]:
    return drawn(*_SHAPES.get(reference, ((4, 6),)))


@pytest.mark.parametrize(("candidate", "reference"), TWINS.values(), ids=TWINS)
def test_other_forms_are_equal(candidate: Function, reference: Function) -> None:
    found = evidence(candidate, reference, *_inputs(reference))
    assert (found.refused, found.equal) == ("", found.elements)


@pytest.mark.parametrize(("candidate", "reference"), FAULTS.values(), ids=FAULTS)
def test_planted_faults_are_not(candidate: Function, reference: Function) -> None:
    found = evidence(candidate, reference, *_inputs(reference))
    assert found.refused == ""
    assert found.equal < found.elements
    if candidate is _one_off:
        assert (found.equal, found.element) == (found.elements - 1, 2 * 7 + 3)


def _a_number(x: Tensor) -> Tensor:
    return x * float(x.sum())


def _bits(x: Tensor) -> Tensor:
    return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)


def _noise(x: Tensor) -> Tensor:
    return x + torch.randn_like(x)


def _nobody_wrote(x: Tensor) -> Tensor:
    found = torch.empty_like(x)
    found[1:] = x[1:]
    return found + x


def _behind_torch(x: Tensor) -> Tensor:
    found = x * 2
    found.numpy()[0] = 1.0
    return found


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (_a_number, "a number taken out of a tensor"),
        (_bits, "bits of numbers"),
        (_noise, "random numbers"),
        (_nobody_wrote, "nobody wrote"),
        (_behind_torch, "was changed after"),
    ],
)
def test_what_is_not_followed_is_refused_with_its_line(candidate: Function, why: str) -> None:
    found = evidence(candidate, lambda x: x.abs(), *drawn((4, 6)))
    assert why in found.refused
    if candidate is not _behind_torch:
        assert "test_operations.py:" in found.refused


def test_memory_that_others_change_between_operations_is_read_again() -> None:
    def candidate(x: Tensor) -> Tensor:
        found = x * 2
        found.numpy()[:] = x.numpy()  # what no operation of torch did: as good as an input
        return found + 1

    assert evidence(candidate, lambda x: x + 1, *drawn((4, 6))).equal == 24
    assert evidence(candidate, lambda x: 2 * x + 1, *drawn((4, 6))).equal == 0


# ---- kernels between torch's operations ----------------------------------------------------------

SCALE = """
extern "C" __global__ void rows(const float* x, float* y, int columns, float factor) {
    float total = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 32) total += x[blockIdx.x * columns + i];
    for (int step = 16; step; step >>= 1) total += __shfl_xor_sync(0xffffffff, total, step);
    if (threadIdx.x == 0) y[blockIdx.x] = total * factor;
}
"""


def _sums(x: Tensor, factor: float) -> Tensor:
    """Launch the kernel: the sums of rows, scaled."""
    launcher = candidates.current
    assert launcher is not None
    found = torch.empty(x.shape[0])
    pointers = [struct.pack("<Q", one.data_ptr()) for one in (x, found)]
    launcher(
        compile_ptx(SCALE, arch="sm_80", flags=(), name="k.cu"), "rows", grid=(x.shape[0], 1, 1),
        block=(32, 1, 1), shared_bytes=0, tensors=[x, found],
        arguments=[*pointers, struct.pack("<i", x.shape[1]), struct.pack("<f", factor)],
    )  # fmt: skip
    return found


def _mean_of_squares(x: Tensor, b: Tensor) -> Tensor:
    return (x * x).mean(1) + b


@needs_nvrtc
def test_a_kernel_between_operations() -> None:
    x, b = drawn((5, 40), (5,))
    right = evidence(lambda x, b: _sums(x * x, 1 / 40).add_(b), _mean_of_squares, x, b)
    assert (right.refused, right.equal) == ("", 5)
    for wrong in (
        lambda x, b: _sums(x * x, 1 / 40),  # no bias
        lambda x, b: _sums(x * x, 1 / 39) + b,
        lambda x, b: _sums(x * x.abs(), 1 / 40) + b,
        lambda x, b: _sums((x * x)[:, :39].contiguous(), 1 / 40) + b,
        lambda x, b: _sums(x * x, 1 / 40) + b.flip(0),
    ):
        found = evidence(wrong, _mean_of_squares, x, b)
        assert found.refused == ""
        assert found.equal < 5


@needs_nvrtc
def test_a_recording_keeps_its_operations_when_it_is_read_again() -> None:
    candidates.without_kernels()
    data = recorded(lambda x: _sums(x * 2, 0.5).sum(), drawn((3, 7)))
    recording = decode(data)
    assert [(one.name, one.launches) for one in recording.operations] == [
        ("aten::mul.Tensor", 0),
        ("aten::sum.default", 1),
    ]
    assert decode(encode(recording)) == recording

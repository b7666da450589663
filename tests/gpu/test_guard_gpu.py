"""Guards on a GPU: streams, changed inputs, CUDA graphs, detection, memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import cuassay
from cuassay_guard import graphs

pytestmark = pytest.mark.gpu

QUIET: dict[str, Any] = {"capsules": None, "max_overhead": None, "sample": 1.0}


@pytest.fixture(autouse=True)
def _gpu() -> Iterator[None]:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    logging.getLogger("cuassay.guard").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("cuassay.guard").setLevel(logging.NOTSET)


def _trusted(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight.float()).to(
        x.dtype
    )


class _Kernel:
    """PyTorch's fused RMSNorm; `wrong` spoils one row by 3 per cent."""

    __name__ = "kernel"

    def __init__(self) -> None:
        self.wrong = False

    def __call__(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        out = torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
        if self.wrong:
            out[7] *= 1.03
        return out


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def _inputs(rows: int = 512) -> tuple[Tensor, Tensor]:
    x = torch.randn(rows, 1024, device="cuda").bfloat16()
    return x, torch.randn(1024, device="cuda").bfloat16()


@pytest.mark.parametrize("oracle", ["local", "process"])
def test_a_wrong_row_is_found_and_an_honest_kernel_is_not(oracle: str) -> None:
    kernel = _Kernel()
    guarded = cuassay.guard(kernel, trusted=_trusted, problem="rmsnorm", oracle=oracle, **QUIET)
    for _ in range(50):
        guarded(*_inputs(), 1e-6)
    assert guarded.flush(120)
    found = guarded.stats()
    assert (found.checked, found.violations, found.errors, found.undecided) == (50, 0, 0, 0)
    kernel.wrong = True
    guarded(*_inputs(), 1e-6)
    assert guarded.flush(120)
    assert (guarded.stats().violations, guarded.stats().state) == (1, "open")
    x, weight = _inputs()
    assert torch.equal(guarded(x, weight, 1e-6), _trusted(x, weight, 1e-6))
    assert guarded.watch.memory.used_bytes == 0


def test_inputs_changed_in_place_right_after_on_any_stream() -> None:
    room = {"memory_budget_bytes": 4 << 30}  # for every snapshot: calls come faster than checks
    guarded = cuassay.guard(_Kernel(), trusted=_trusted, oracle="local", **QUIET, **room)
    x, weight = _inputs(4096)
    streams = [torch.cuda.current_stream(), _stream(), _stream()]
    for turn in range(60):
        stream = streams[turn % 3]
        stream.wait_stream(streams[(turn - 1) % 3])
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000)  # type: ignore[no-untyped-call]
            out = guarded(x, weight, 1e-6)
            x.normal_()
            out.zero_()
    assert guarded.flush(120)
    found = guarded.stats()
    assert (found.checked, found.violations, found.errors) == (60, 0, 0)


def test_a_captured_graph_is_checked_at_replays() -> None:
    kernel = _Kernel()
    guarded = cuassay.guard(kernel, trusted=_trusted, oracle="local", **QUIET)
    x, weight = _inputs()
    side = _stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            guarded(x, weight, 1e-6)
    torch.cuda.synchronize()
    guarded.flush(60)
    checked = guarded.stats().checked
    graph = torch.cuda.CUDAGraph()
    watched = graphs.watch(graph, guarded)
    with watched.capturing(), torch.cuda.graph(graph):
        out = guarded(x, weight, 1e-6)
    for _ in range(10):
        x.normal_()
        watched.replay()
    assert torch.equal(out, kernel(x, weight, 1e-6))
    assert guarded.flush(60)
    found = guarded.stats()
    assert found.checked > checked
    assert (found.violations, found.errors) == (0, 0)
    kernel.wrong = True
    for _ in range(3):
        watched.replay()
    assert guarded.flush(60)
    assert guarded.stats().violations >= 1
    assert not watched.trusted


def test_a_plain_capture_of_a_guarded_call_is_left_alone() -> None:
    guarded = cuassay.guard(_Kernel(), trusted=_trusted, oracle="local", **QUIET)
    x, weight = _inputs()
    side = _stream()
    with torch.cuda.stream(side):
        torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = guarded(x, weight, 1e-6)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, _Kernel()(x, weight, 1e-6))
    assert guarded.stats().sampled == 0


def test_checks_run_while_another_thread_captures() -> None:
    """A check must not break a capture: it may not synchronise the device."""
    room = {"memory_budget_bytes": 4 << 30}  # for every snapshot: calls come faster than checks
    guarded = cuassay.guard(_Kernel(), trusted=_trusted, oracle="local", **QUIET, **room)
    x, weight = _inputs(4096)
    guarded(x, weight, 1e-6)
    assert guarded.flush(60)
    y = torch.randn(1024, 1024, device="cuda")
    (y @ y).sum()
    torch.cuda.synchronize()
    for _ in range(20):
        guarded(x, weight, 1e-6)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # in the strictest mode: unsafe calls of any thread end it
        z = y @ y
    graph.replay()
    assert guarded.flush(60)
    torch.cuda.synchronize()
    assert torch.isfinite(z).all()
    assert (guarded.stats().errors, guarded.stats().violations) == (0, 0)


def test_device_memory_is_flat() -> None:
    guarded = cuassay.guard(_Kernel(), trusted=_trusted, oracle="local", **QUIET)
    x, weight = _inputs()
    for _ in range(50):
        guarded(x, weight, 1e-6)
    guarded.flush(60)
    before = torch.cuda.memory_allocated()
    for _ in range(500):
        guarded(x, weight, 1e-6)
    guarded.flush(120)
    assert torch.cuda.memory_allocated() <= before + 2**20

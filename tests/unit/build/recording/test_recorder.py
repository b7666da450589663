"""Launches kept around a stand-in for a GPU: which, on which memory, and what replay sees."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cuassay.build.cuda import raw_kernel
from cuassay.build.cuda.nvrtc import compile_ptx, find_nvrtc
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.machine.memory import StorageArena
from cuassay.build.machine.replay import execute
from cuassay.build.recording import now as recording_now
from cuassay.build.recording.driver import RecordedDriver
from cuassay.build.recording.gpu_memory import TorchMemory, gpu_memory
from cuassay.build.recording.recorder import LaunchRecorder, SeenLaunch, Wish
from cuassay.build.recording.unwritten import PatternFill, lay, new_pattern, unwritten
from cuassay.checks.machine.faults import recorded_call
from cuassay.errors import MissingToolError, UsageError
from cuassay.model.candidate import Convention, Language, Launch
from cuassay.model.case import Case
from cuassay.model.device import CPU, CUDA
from cuassay.model.machine import MachineEvidence
from cuassay.model.problem import Scalar
from cuassay.model.recording import Recording, decode, encode
from cuassay.model.trace import StepDone
from cuassay.report.terminal.machine import lines
from cuassay.sandbox.local import LocalRunner
from tests.support.builds import candidate, problem


def seen(*tensors: torch.Tensor, arguments: list[bytes] | None = None) -> SeenLaunch:
    """A launch that knows its tensors, or as much of them as addresses say."""
    given = (
        [t.data_ptr().to_bytes(8, "little") for t in tensors] if arguments is None else arguments
    )
    named = [(f"t{n}", tensor) for n, tensor in enumerate(tensors)]
    return SeenLaunch(
        ptx=".version 8.0", kernel="k", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0,
        arguments=given, tensors=named,
    )  # fmt: skip


def run(recorder: LaunchRecorder, told: SeenLaunch, go: Callable[[], Any] = lambda: None) -> Any:
    return recorder.launch("k", lambda: told, go)


class Blocks(TorchMemory):
    """A caching allocator that handed out these tensors."""

    def __init__(self, *tensors: torch.Tensor, live: bool = True) -> None:
        super().__init__()
        places = [(t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()) for t in tensors]
        self._blocks = sorted((base, size, live) for base, size in places)
        self._starts = [base for base, _, _ in self._blocks]

    def read(self, allocation: Any) -> np.ndarray[Any, Any]:
        raw = ctypes.string_at(allocation.base, allocation.nbytes)
        return np.frombuffer(raw, dtype=np.uint8)


def test_memory_that_a_structure_by_value_points_to_is_kept() -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    structure = b"".join(word.to_bytes(8, "little") for word in (7, x.data_ptr(), y.data_ptr()))
    recorder = LaunchRecorder(Wish(), Blocks(x, y))
    run(recorder, seen(arguments=[structure, (9).to_bytes(4, "little")]))
    (launch,) = recorder.recording().launches
    assert {region.base for region in launch.regions} == {x.data_ptr(), y.data_ptr()}


def test_a_replayed_graph_is_counted_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda self: played.append(1))
    graph = object.__new__(torch.cuda.CUDAGraph)
    recorder = LaunchRecorder(Wish(), TorchMemory())
    with recording_now.recording(recorder, triton=False, device=CUDA):
        torch.cuda.CUDAGraph.replay(graph)
        with recorder.paused():
            torch.cuda.CUDAGraph.replay(graph)
    torch.cuda.CUDAGraph.replay(graph)
    recording = recorder.recording()
    assert len(played) == 3
    assert recording.left_out == 1
    assert "replayed" in recording.notes[0]


def test_whole_storages_are_kept_before_and_after_each_launch() -> None:
    whole = torch.arange(8.0)
    view, out = whole[2:6], torch.zeros(4, dtype=torch.bfloat16)
    recorder = LaunchRecorder(Wish(), TorchMemory())
    run(recorder, seen(view, out), lambda: out.fill_(2.0))
    run(recorder, seen(view, out))
    first, second = decode(encode(recorder.recording())).launches
    assert [(r.name, r.nbytes, r.dtype) for r in first.regions] == [
        ("t0", 32, "float32"), ("t1", 8, "bfloat16"),
    ]  # fmt: skip
    assert first.regions[0].base == whole.data_ptr()
    assert first.contents[0] == whole.numpy().tobytes()
    assert first.contents[1] == bytes(8)
    assert first.after is not None
    assert first.after[1] == second.contents[1] == bytes.fromhex("0040") * 4
    assert first.written == {}


def test_what_is_equal_is_stored_once() -> None:
    x = torch.arange(4096.0)
    recorder = LaunchRecorder(Wish(), TorchMemory())
    for _ in range(5):
        run(recorder, seen(x))
    assert len(encode(recorder.recording())) < 2 * x.nbytes


@pytest.mark.parametrize(
    ("wish", "kept", "note"),
    [
        (Wish(most=2), 2, "3 launches of 'k': 2 were kept before, which is the most asked for"),
        (Wish(skip=4), 1, ""),
        (Wish(kernels=("other*",)), 0, ""),
        (Wish(kernels=("other*", "[jk]")), 5, ""),
        (
            Wish(max_bytes=63),
            0,
            "5 launches of 'k': 't0' (64 bytes) would be more than the 63",
        ),
        (
            Wish(max_bytes=64),
            1,
            "4 launches of 'k': all memory kept would be more than the 64",
        ),
    ],
)
def test_what_is_not_kept_runs_and_is_told(wish: Wish, kept: int, note: str) -> None:
    x = torch.zeros(16)
    recorder = LaunchRecorder(dataclasses.replace(wish, outcome=False), TorchMemory())
    for _ in range(5):
        run(recorder, seen(x), lambda: x.add_(1.0))
    assert x[0] == 5.0
    assert recorder.kept == kept
    assert recorder.recording().left_out == (5 - kept if note else 0)
    assert note in " ".join(recorder.recording().notes)


def test_a_failure_to_describe_costs_the_recording_only() -> None:
    recorder = LaunchRecorder(Wish(), TorchMemory())

    def unknown() -> SeenLaunch:
        raise MissingToolError("the PTX machine knows no Triton parameter of type 'fp16'")

    assert recorder.launch("k", unknown, lambda: 7) == 7
    assert list(recorder.notes()) == [
        "1 launch of 'k': the PTX machine knows no Triton parameter of type 'fp16'"
    ]


def test_a_launch_that_fails_is_saved_at_once_with_the_reason() -> None:
    saved: list[Recording] = []
    x = torch.ones(4)
    recorder = LaunchRecorder(Wish(), TorchMemory(), save=saved.append)

    def fails() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        run(recorder, seen(x), fails)
    (launch,) = saved[0].launches
    assert launch.failure == "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert launch.after is None
    assert launch.contents[0] == x.numpy().tobytes()


def test_a_launch_that_does_not_end_is_saved_while_it_is_waited_for() -> None:
    class Slow(TorchMemory):
        def wait(self, *, limit_s: float, late: Callable[[], None]) -> None:
            late()

    saved: list[Recording] = []
    recorder = LaunchRecorder(Wish(limit_s=5.0), Slow(), save=saved.append)
    run(recorder, seen(torch.ones(4)))
    assert saved[0].launches[0].failure == "it had not ended after 5 s"
    assert recorder.recording().launches[0].failure == ""


def test_whoever_waits_no_longer_keeps_the_launch() -> None:
    class Interrupted(TorchMemory):
        def wait(self, *, limit_s: float, late: Callable[[], None]) -> None:
            raise KeyboardInterrupt

    saved: list[Recording] = []
    recorder = LaunchRecorder(Wish(), Interrupted(), save=saved.append)
    with pytest.raises(KeyboardInterrupt):
        run(recorder, seen(torch.ones(4)))
    assert saved[0].launches[0].failure == "KeyboardInterrupt"


def test_memory_behind_a_table_of_pointers_is_kept() -> None:
    far = torch.arange(6.0)
    near = torch.ones(2)
    table = torch.tensor([far.data_ptr() + 8, 5, near.data_ptr()])
    words = [table.data_ptr().to_bytes(8, "little"), (7).to_bytes(8, "little")]
    recorder = LaunchRecorder(Wish(), Blocks(far, near, table))
    run(recorder, seen(arguments=words))
    held = recorder.recording().launches[0]
    assert {region.base for region in held.regions} == {
        tensor.data_ptr() for tensor in (far, near, table)
    }
    recorder = LaunchRecorder(Wish(), Blocks(far, near, table, live=False))
    run(recorder, seen(arguments=words))
    assert recorder.recording().launches[0].regions == ()  # torch took it back: nobody's


def test_unwritten_memory_is_known_by_its_pattern() -> None:
    pattern = new_pattern()
    with PatternFill(pattern, kind="cpu"):
        x = torch.empty(5, 7)
        y = torch.empty_like(x)
        z = torch.zeros(3)
    x[1:3].zero_()
    flags = unwritten(x.view(torch.uint8).numpy().reshape(-1), pattern)
    assert flags is not None
    assert flags[:16].all()
    assert not flags[28:84].any()  # rows 1 and 2
    assert flags[96:].all()  # a granule that was written in part counts as written
    assert unwritten(z.view(torch.uint8).numpy().reshape(-1), pattern) is None
    whole = unwritten(y.view(torch.uint8).numpy().reshape(-1), pattern)
    assert whole is not None
    assert whole.all()
    out = torch.zeros(9, dtype=torch.int8)
    lay(out, pattern)
    assert unwritten(out.view(torch.uint8).numpy(), pattern) is not None
    assert unwritten(out.view(torch.uint8).numpy(), b"") is None


def test_without_a_gpu_the_message_says_what_is_missing() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(MissingToolError, match=r"sees none: .*cuassay run KERNEL"):
        gpu_memory()


def test_one_recording_at_a_time() -> None:
    recorder = LaunchRecorder(Wish(), TorchMemory())
    with recording_now.recording(recorder, triton=False):
        with (
            pytest.raises(UsageError, match="already"),
            recording_now.recording(recorder, triton=False),
        ):
            pass
        assert recording_now.current is recorder
    assert recording_now.current is None


SOURCE = """
extern "C" __global__ void scale(const float* x, float* y, float factor, long long count) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i] * factor;
}
"""


def replayed(source: str, recorder: LaunchRecorder, *, other: bool = False) -> MachineEvidence:
    """Run a raw kernel through the recorded driver, the machine in the GPU's place; replay it."""
    return execute(recorded(source, recorder, other=other), {})


def recorded(source: str, recorder: LaunchRecorder, *, other: bool = False) -> Recording:
    """Run a raw kernel through the recorded driver, the machine in the GPU's place."""
    launch = Launch(
        kernel="scale",
        grid=("-(-rows * hidden // 32)", "1", "1"),
        block=("32", "1", "1"),
        arguments=("x", "y", "factor", "rows * hidden"),
    )
    case = candidate(source, paths=("k.cu",), language=Language.CUDA_KERNEL)
    case = dataclasses.replace(case, launches=(launch,))
    arena = StorageArena()
    ptx = compile_ptx(source, arch="sm_80", name="k.cu")
    shown = ptx.replace("mul.f32", "add.f32") if other else ptx
    machine = MachineLauncher(arena=arena)
    driver = RecordedDriver(machine, ptx=lambda: shown, sources={"k.cu": source})

    def notice(values: Any) -> None:
        driver.notice(values)
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                arena.add(value, name)

    call = raw_kernel.bind(
        case, problem(), device=CPU, cubin=ptx.encode(), launcher=driver,
        stream_of=lambda device: 0, notice=notice,
    )  # fmt: skip
    with recording_now.recording(recorder, triton=False, device=CPU):
        call(torch.arange(1.0, 41.0).reshape(5, 8), 2.5)
    return decode(encode(recorder.recording()))


needs_nvrtc = pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")


@needs_nvrtc
def test_a_raw_kernel_is_replayed_and_agrees_bit_by_bit() -> None:
    pytest.importorskip("numba")
    wish = Wish(pattern=new_pattern())
    evidence = replayed(SOURCE, LaunchRecorder(wish, TorchMemory()))
    (launch,) = evidence.launches
    assert launch.faults == ()
    assert launch.oblivious
    assert launch.agreement is not None
    (one,) = launch.agreement
    assert (one.allocation, one.dtype, one.offset) == ("y", "float32", None)
    assert one.equal == one.nbytes > 140
    text = "\n".join(lines(evidence, {}, trace=False))
    assert f"the machine agrees with the GPU in {one.nbytes} of {one.nbytes} bytes" in text


@needs_nvrtc
def test_a_kernel_that_takes_an_int_gets_the_low_half_of_a_size() -> None:
    pytest.importorskip("numba")
    recording = recorded(
        SOURCE.replace("long long count", "int count"),
        LaunchRecorder(Wish(pattern=new_pattern()), TorchMemory()),
    )
    (launch,) = recording.launches
    assert launch.arguments[-1] == (40).to_bytes(4, "little")
    (seen_launch,) = execute(recording, {}).launches
    assert seen_launch.faults == ()
    assert seen_launch.agreement is not None
    assert seen_launch.agreement[0].equal == seen_launch.agreement[0].nbytes


@needs_nvrtc
@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("if (i < count)", "if (i <= count)", "out-of-bounds"),
        ("y[i] = x[i]", "y[i] = y[i] + x[i]", "uninitialised"),
    ],
)
def test_a_planted_fault_is_found_in_the_replay(old: str, new: str, kind: str) -> None:
    pytest.importorskip("numba")
    wish = Wish(pattern=new_pattern())
    evidence = replayed(SOURCE.replace(old, new), LaunchRecorder(wish, TorchMemory()))
    found = {(fault.kind, fault.touches[0].line) for _, fault in evidence.faults}
    assert (kind, 4) in found


@needs_nvrtc
def test_what_is_launched_again_on_the_same_memory_is_executed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    from ptxsan import run as machine

    ran: list[int] = []
    whole = machine.run

    def counted(*given: Any, **named: Any) -> Any:
        ran.append(1)
        return whole(*given, **named)

    monkeypatch.setattr(machine, "run", counted)
    kept = recorded(SOURCE, LaunchRecorder(Wish(), TorchMemory()))
    (launch,) = kept.launches
    assert len(launch.contents) == len(launch.regions) == 2
    other = dataclasses.replace(launch, contents={0: launch.contents[0]})  # y is what was left
    ran.clear()
    several = dataclasses.replace(kept, launches=(launch, launch, launch, other, other))
    evidence = execute(several, {})
    assert [one.inconclusive for one in evidence.launches] == [""] * 5
    assert len(ran) == 3
    ran.clear()
    evidence = execute(several, {"limit_s": 0.0})
    assert not ran
    assert evidence.judged == 0
    assert "0 s for the launches of a call were up" in evidence.gap


@needs_nvrtc
def test_a_difference_is_told_with_its_size() -> None:
    pytest.importorskip("numba")
    evidence = replayed(SOURCE, LaunchRecorder(Wish(), TorchMemory()), other=True)
    (one,) = evidence.launches[0].agreement or ()
    assert one.equal < one.nbytes
    assert (one.largest, one.scale) == (40 * 2.5 - 42.5, 100.0)
    text = "\n".join(lines(dataclasses.replace(evidence, device="GPU"), {}, trace=False))
    assert "bytes differ, first byte 0" in text or "bytes differ, first byte 2" in text
    assert "by 57.5 at most, values reach 100 (float32)" in text


def test_a_worker_records_a_call_with_its_unwritten_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cuassay.build.recording.gpu_memory.gpu_memory", TorchMemory)
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    def call(x: torch.Tensor, factor: float, y: torch.Tensor) -> None:
        assert recording_now.current is not None
        room = torch.empty(64)
        run(recording_now.current, seen(x, y, room), lambda: y.copy_(x * factor))

    case = Case(label="c", axes={"rows": 5, "hidden": 8})
    runner = LocalRunner(call, problem(), device=CPU, convention=Convention.DESTINATION)
    inputs: dict[str, torch.Tensor | Scalar] = {"x": torch.ones(5, 8), "factor": 2.0}
    found = runner.run(recorded_call(case, on_gpu=True), lambda case: inputs, None)
    record = found.result.records[3]
    assert isinstance(record, StepDone), record
    recording = decode(bytes(found.tensor(record.items[0]).numpy()))
    (launch,) = recording.launches
    assert sorted(launch.written) == [1, 2]
    assert launch.written[1] == bytes(20)
    assert launch.after is not None
    assert launch.after[1] == torch.full((5, 8), 2.0).numpy().tobytes()
    assert [result.name for result in recording.results] == ["y"]
    assert recording_now.current is None

"""Parts of the worker that need no process: frames, environment, segments, limits, sandbox."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.model.device import CPU, CUDA
from cuassay.model.problem import Scalar
from cuassay.model.walls import WALLS
from cuassay.sandbox import environment, processes, wire
from cuassay.sandbox.guest.transport import WorkerTransport, aligned_offsets
from cuassay.sandbox.host.segments import Segments, StillWritableError


def test_frames_survive_the_channel_with_their_descriptors(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(tmp_path / "f", "w") as file:
        wire.send(ours, {"a": [1, 2.5, None, "\u00e9"]}, [file.fileno()])
        message, fds = wire.receive(theirs)
    assert message == {"a": [1, 2.5, None, "\u00e9"]}
    assert len(fds) == 1
    os.close(fds[0])


def test_a_closed_channel_is_told() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs, pytest.raises(wire.ClosedError):
        wire.receive(theirs)


@pytest.mark.parametrize("body", [b"\xff", b"[1]", b"{", b"[" * 100_000, b"3" * 9000])
def test_bodies_that_are_no_object_are_garbled(body: bytes) -> None:
    with pytest.raises(wire.GarbledError):
        wire.parse(body)


def test_frames_are_taken_whole_and_bounded() -> None:
    whole = wire.frame({"a": 1})
    buffer = bytearray(whole[:-1])
    assert wire.take_frame(buffer, cap=100) is None
    buffer += whole[-1:] + b"rest"
    assert wire.take_frame(buffer, cap=100) == {"a": 1}
    assert buffer == b"rest"
    with pytest.raises(wire.GarbledError):
        wire.take_frame(bytearray(b"\xff" * 8), cap=100)


def test_the_environment_is_an_allow_list(tmp_path: Path) -> None:
    source = {"PATH": "/bin", "AWS_SECRET": "x", "PYTHONPATH": "/abs:rel", "LD_PRELOAD": "/x.so"}
    made = environment.scrubbed(source, device=CPU, folder=tmp_path)
    assert not set(made) & {"AWS_SECRET", "LD_PRELOAD"}
    assert "/abs" in made["PYTHONPATH"].split(":")
    assert "rel" not in made["PYTHONPATH"].split(":")
    assert "TRITON_INTERPRET" not in made
    assert made["CUDA_VISIBLE_DEVICES"] == ""


def test_torch_compile_starts_no_processes_in_a_worker(tmp_path: Path) -> None:
    """They could not use the GPU: the kernels of torch.compile failed to build on GPUs."""
    made = environment.scrubbed({}, device=CUDA, folder=tmp_path)
    asked = "import torch._inductor.config as c; print(c.decide_compile_threads())"
    done = subprocess.run(
        [sys.executable, "-c", asked], env=made, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"]


def test_blocks_are_placed_apart() -> None:
    assert aligned_offsets([1, 0, 257]) == ([0, 256, 256], 768)


def test_inputs_are_sealed_and_read_back() -> None:
    inputs: Mapping[str, torch.Tensor | Scalar] = {"x": torch.arange(5).bfloat16(), "n": 3}
    package = Segments(CPU).pack(inputs, [torch.ones(2)])
    with pytest.raises(PermissionError):
        os.pwrite(package.fds[0], b"x", 0)
    given = WorkerTransport(CPU).open(package.data, package.fds)
    package.close()
    assert given.inputs is not None
    assert given.inputs["n"] == 3
    assert torch.equal(torch.as_tensor(given.inputs["x"]), torch.arange(5).bfloat16())
    assert torch.equal(given.answers[0], torch.ones(2))


def test_results_are_sealed_before_they_are_believed() -> None:
    import mmap

    segments, layouts = Segments(CPU), [("float32", (2, 2)), ("bool", (3,))]
    package = segments.room(layouts)
    results = [torch.ones(2, 2), torch.tensor([True, False, True])]
    WorkerTransport(CPU).write(package.data, package.fds, results)
    with mmap.mmap(package.fds[0], 0), pytest.raises(StillWritableError):
        segments.read(package, layouts)
    found = segments.read(package, layouts)
    with pytest.raises(PermissionError):
        os.pwrite(package.fds[0], b"x", 0)
    package.close()
    assert torch.equal(found[0], results[0])
    assert torch.equal(found[1], results[1])


def test_process_trees() -> None:
    table = processes.visible_processes()
    me = os.getpid()
    assert me in processes.descendants([os.getppid()], table)
    count, held = processes.tree_size(me)
    assert count >= 1
    assert held > 1 << 20


def test_memory_that_forks_share_is_counted_once() -> None:
    code = (
        "import os, sys\n"
        "held = bytearray(b'1') * (64 << 20)\n"
        "for _ in range(7):\n"
        "    if not os.fork():\n"
        "        sys.stdin.read()\n"
        "        os._exit(0)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        count, held = processes.tree_size(process.pid)
        exact = processes.tree_bytes(process.pid)
    assert count == 8
    assert held > 8 * (64 << 20)
    assert (64 << 20) < exact < (64 << 20) + (64 << 20)


def test_a_look_at_a_tree_reads_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may run thousands, and a trial looks at each worker once a second."""
    code = (
        "import os, sys\n"
        "if not os.fork():\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    read: list[int] = []
    whole = processes._read

    def noted(pid: int) -> processes.Process | None:
        read.append(pid)
        return whole(pid)

    with (
        subprocess.Popen([sys.executable, "-c", code], **pipes) as process,
        subprocess.Popen(["sleep", "60"]) as bystander,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        table = processes.visible_processes()
        monkeypatch.setattr(processes, "_read", noted)
        found = processes.live(process.pid)
        (child,) = set(found) - {process.pid}
        assert sorted(read) == sorted(found)
        assert set(found) == processes.descendants([process.pid], table)
        ticks, _ = processes.family_use(child)  # of its parent and what that started
        assert ticks == sum(table[pid].ticks for pid in found)
        assert bystander.pid not in read
        bystander.kill()


def test_every_wall_has_an_outcome(walls: Mapping[str, str]) -> None:
    assert {wall.name for wall in WALLS} <= set(walls)
    assert all(text == "yes" or text.startswith("no") for text in walls.values())

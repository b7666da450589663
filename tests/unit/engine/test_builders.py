"""Builds ahead of a GPU lane: which kernels need one, and that each is told as done, once."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from cuassay.engine import builders
from cuassay.engine.builders import Builders, needs_build
from cuassay.errors import CannotJudgeError
from cuassay.model.jobs import BuildJob, TrialJob

_JOBS = {name: TrialJob(problem="rmsnorm", candidate=f"{name}.py") for name in "abc"}


@pytest.mark.parametrize(
    ("text", "is_built"),
    [
        ("__global__ void scale(float* x) {}", True),
        ("from torch.utils.cpp_extension import load", True),
        ("m = load_inline('m', cpp_sources=[])", True),
        ("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", True),
        ("import triton\n@triton.jit\ndef k(x): pass\n", False),
    ],
)
def test_code_for_a_compiler_is_told_by_what_it_says(
    tmp_path: Path, text: str, is_built: bool
) -> None:
    (tmp_path / "kernel").write_text(text)
    assert needs_build([tmp_path / "absent", tmp_path / "kernel"]) is is_built


def test_a_pipe_and_a_file_without_end_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long.cu").write_text("__global__")
    monkeypatch.setattr(builders, "_LARGEST_BYTES", 4)
    assert not needs_build([tmp_path / "pipe", tmp_path / "long.cu"])


class _Built:
    """Notes what was built and what was told; waits until everything was."""

    def __init__(self, count: int) -> None:
        self.jobs: list[BuildJob] = []
        self.told: list[str] = []
        self._left = threading.Semaphore(0)
        self._count = count

    def build(self, job: BuildJob, *_: Any, **given: Any) -> None:
        self.jobs.append(job)
        assert given["environment"] == {"CUDA_VISIBLE_DEVICES": "1"}
        if job.candidate == "b.py":
            raise CannotJudgeError("no compiler")

    def done(self, name: str) -> None:
        self.told.append(name)
        self._left.release()

    def wait(self) -> None:
        for _ in range(self._count):
            assert self._left.acquire(timeout=60)


@pytest.mark.parametrize("count", [1, 8])
def test_every_build_is_told_once_also_one_that_fails(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    built = _Built(len(_JOBS))
    monkeypatch.setattr("cuassay.engine.builders.run.document", built.build)
    Builders(
        _JOBS,
        count=count,
        environment={"CUDA_VISIBLE_DEVICES": "1"},
        timeout_s=None,
        done=built.done,
    )
    built.wait()
    assert sorted(built.told) == ["a", "b", "c"]
    assert sorted(job.candidate for job in built.jobs) == ["a.py", "b.py", "c.py"]


def test_after_an_end_no_further_build_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    built = _Built(1)
    begun, may_end = threading.Event(), threading.Event()

    def slow(job: BuildJob, *_: Any, **__: Any) -> None:
        built.jobs.append(job)
        begun.set()
        assert may_end.wait(60)

    monkeypatch.setattr("cuassay.engine.builders.run.document", slow)
    made = Builders(_JOBS, count=1, environment={}, timeout_s=None, done=built.done)
    assert begun.wait(60)
    made.close()
    may_end.set()
    for thread in made._threads:
        thread.join(60)
    assert len(built.jobs) == len(built.told) == 1

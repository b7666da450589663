"""Which way Triton's numbers come about without a GPU, and what the verdict says of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch

from cuassay.build import cuda_facade
from cuassay.build.machine import candidates as machine
from cuassay.build.machine import launch as machine_launch
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.machine.memory import StorageArena
from cuassay.build.machine.triton_kernels import _refusing
from cuassay.errors import MissingToolError, UsageError
from cuassay.judge.decide.executed_by import IN_MACHINE, executed_by
from cuassay.judge.entry import _known_settings
from cuassay.model.candidate import Language
from cuassay.model.device import CPU, CUDA
from tests.support.builds import candidate

WRAPPER = "import triton\n\ndef run(x):\n    return x\n"


@pytest.fixture(autouse=True)
def default_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUASSAY_TRITON", raising=False)
    monkeypatch.setattr(machine, "missing", lambda: "")


def test_the_machine_makes_the_numbers_unless_something_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.interpreted_because(tmp_path, wanted=False) == ""
    monkeypatch.setenv("CUASSAY_TRITON", "machine")
    assert machine.interpreted_because(tmp_path, wanted=False) == ""
    monkeypatch.setenv("CUASSAY_TRITON", "interpreter")
    assert "CUASSAY_TRITON=interpreter" in machine.interpreted_because(tmp_path, wanted=False)
    assert machine.interpreted_because(tmp_path, wanted=True) == "", "recordings need launches"


def test_missing_packages_are_the_reason_in_either_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "missing", lambda: "the PTX machine needs numba")
    for wanted in (False, True):
        assert "needs numba" in machine.interpreted_because(tmp_path, wanted=wanted)


def test_a_kernel_that_was_not_covered_counts_for_an_hour(tmp_path: Path) -> None:
    mark = machine.mark_of(tmp_path)
    mark.write_text("does not cover 'k'")
    assert machine.interpreted_because(tmp_path, wanted=False) == "does not cover 'k'"
    assert machine.interpreted_because(tmp_path, wanted=True) == ""
    old = time.time() - 3700
    os.utime(mark, (old, old))
    assert machine.interpreted_because(tmp_path, wanted=False) == ""


def test_the_verdict_says_why_the_interpreter_made_the_numbers() -> None:
    wrapper = candidate(WRAPPER)
    said = executed_by(wrapper, CPU, "python+triton-interpreter", because="it\x1b[2J\n{x} " * 99)
    assert "numbers by Triton's interpreter because it[2J{x} it" in said
    assert "\x1b" not in said
    assert "\n" not in said
    assert len(said) < 600
    assert "interpreter;" in executed_by(wrapper, CPU, "python+triton-interpreter")
    assert executed_by(wrapper, CPU, "python+ptx-machine", because="no matter") == IN_MACHINE
    assert executed_by(wrapper, CUDA, "python") == ""


def test_the_verdict_names_the_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_MACHINE_ARCH", "sm_100")
    said = executed_by(candidate(WRAPPER), CPU, "python+ptx-machine")
    assert said == f"{IN_MACHINE}; it was compiled for sm_100"
    raw = candidate("", paths=("k.cu",), language=Language.CUDA_KERNEL)
    assert executed_by(raw, CPU, "cuda") == said


def test_candidates_hear_of_the_gpu_that_they_are_compiled_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_facade, "_capability", cuda_facade._capability)
    with cuda_facade.cuda_facade():
        assert torch.cuda.get_device_capability() == (9, 0)
        cuda_facade.answer_for(100)
        assert torch.cuda.get_device_capability() == (10, 0)
        assert torch.cuda.get_device_properties(0).major == 10
        cuda_facade.answer_for(80)
        assert torch.cuda.get_device_capability() == (9, 0)


def test_a_call_whose_launches_take_too_long_is_not_covered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = MachineLauncher(arena=StorageArena())
    monkeypatch.setattr(machine_launch, "_LIMIT_S", -1.0)
    launcher.begin_call()
    with pytest.raises(MissingToolError, match=r"does not cover 'k': the call's launches take"):
        launcher("", "k", grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, arguments=[])


def test_what_triton_does_not_compile_decides_nothing() -> None:
    def compile_(source: str) -> str:
        if source == "gone":
            raise MissingToolError("no compiler")
        if source:
            raise ValueError("at 3:4:\nout of resource: shared memory")
        return "ptx"

    refusing = _refusing(compile_, 80)
    assert refusing("") == "ptx"
    wanted = r"does not cover a kernel: .*sm_80: ValueError: out of resource: shared memory"
    with pytest.raises(MissingToolError, match=wanted):
        refusing("large")
    with pytest.raises(MissingToolError, match="no compiler"):
        refusing("gone")


def test_a_way_that_does_not_exist_is_named_with_those_that_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _known_settings()
    monkeypatch.setenv("CUASSAY_TRITON", "interpret")
    with pytest.raises(UsageError, match="'interpret': expected machine or interpreter"):
        _known_settings()

"""What a report says of the machine, and which device a trial takes."""

from __future__ import annotations

import getpass
import platform

import pytest
import torch

from cuassay import __version__
from cuassay.errors import MissingToolError
from cuassay.judge.environment import choose_device, environment
from cuassay.model.device import CPU, CUDA


def test_versions_of_what_ran_and_of_the_toolchain_are_named() -> None:
    found = environment(CPU, {"triton": "3.6", "torch": "of somebody else"})
    assert found["cuassay"] == __version__
    assert found["torch"] == torch.__version__  # the toolchain does not replace what ran
    assert found["triton"] == "3.6"
    assert found["device"] == "CPU"
    assert "judge_gpu_peak_gib" not in found


def test_no_user_and_no_host_is_named() -> None:
    words = " ".join(environment(CPU, {}).values()).split()
    assert platform.node() not in words
    assert getpass.getuser() not in words


def test_a_gpu_that_was_asked_for_and_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingToolError, match="sees no GPU"):
        choose_device(CUDA)
    assert choose_device(None) is CPU


def test_a_gpu_that_is_there_is_taken_unless_a_cpu_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device(None) is CUDA
    assert choose_device(CPU) is CPU

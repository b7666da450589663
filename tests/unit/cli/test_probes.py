"""What `cuassay doctor` asks other processes: each program of it runs, and finds what is there."""

from __future__ import annotations

import shutil

import pytest

from cuassay.build.cuda import nvrtc, toolkit
from cuassay.cli import probes
from cuassay.errors import MissingToolError


@pytest.mark.parametrize("name", ["_PACKAGES", "_TORCH", "_INTERPRETER", "_COMPILERS"])
def test_every_program_of_the_doctor_answers(name: str) -> None:
    assert probes.child(getattr(probes, name)), name


def test_the_doctor_finds_the_compilers_that_builds_find() -> None:
    found = {probe.name: probe for probe in probes._compilers()}
    assert found["nvrtc"].ok is (nvrtc.find_nvrtc() is not None)
    try:
        nvcc = str(toolkit.find_nvcc())
    except MissingToolError:
        nvcc = ""
    assert found["nvcc"].found == nvcc
    assert found["c++"].ok is bool(shutil.which("g++") or shutil.which("c++"))

"""What `cuassay doctor` asks other processes: each program of it runs, and finds what is there."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from cuassay.build.cuda import nvrtc, toolkit
from cuassay.cli import probes
from cuassay.errors import MissingToolError


@pytest.mark.parametrize("name", ["_PACKAGES", "_TORCH", "_INTERPRETER", "_COMPILERS"])
def test_every_program_of_the_doctor_answers(name: str) -> None:
    assert probes.child(getattr(probes, name)), name


def test_the_doctor_finds_the_compilers_that_builds_find() -> None:
    found = {probe.name: probe for probe in probes._compilers(gpu=True)}
    assert found["nvrtc"].ok is (nvrtc.find_nvrtc() is not None)
    try:
        nvcc = str(toolkit.find_nvcc())
    except MissingToolError:
        nvcc = ""
    assert found["nvcc"].found == nvcc
    assert found["c++"].ok is bool(shutil.which("g++") or shutil.which("c++"))


@pytest.mark.parametrize(
    ("packages", "driver", "absent", "command"),
    [
        ((), False, (), ""),
        (("judge", "nvcc"), True, (), "pip install 'cuassay[gpu]' nvcc"),
        (("judge",), False, (), "pip install 'cuassay[cpu]'"),
        (
            ("judge",),
            False,
            ("torch", "ptxsan", "cuassay_loops"),
            f"pip install --no-deps 'torch<2.14' --extra-index-url {probes.CPU_INDEX} && "
            "pip install '/a checkout/packages/ptxsan' '/a checkout/packages/cuassay-loops' "
            "'cuassay[cpu]'",
        ),
    ],
)
def test_one_command_installs_what_is_missing(
    packages: tuple[str, ...],
    driver: bool,
    absent: tuple[str, ...],
    command: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = "/usr/bin/nvidia-smi" if driver else None
    monkeypatch.setattr("cuassay.cli.probes.shutil.which", lambda _: there)
    monkeypatch.setattr(
        "cuassay.cli.probes.importlib.util.find_spec",
        lambda name: None if name in absent else name,
    )
    monkeypatch.setattr(probes, "_checkout", lambda: Path("/a checkout"))
    monkeypatch.setattr(Path, "is_dir", lambda _: True)
    assert probes.install_command(packages) == command


def test_the_extra_of_the_command_brings_every_package_that_is_asked_for() -> None:
    """The names that the doctor tells and what pyproject.toml lists are one list."""
    listed = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    extras = listed["project"]["optional-dependencies"]
    ours = Path(__file__).parents[3] / "packages/ptxsan/pyproject.toml"
    machine = tomllib.loads(ours.read_text())["project"]["optional-dependencies"]
    (judge,) = extras[probes.JUDGE]
    names = judge.removeprefix("cuassay[").removesuffix("]").split(",")
    brought = " ".join((*(one for name in names for one in extras[name]), *machine["prove"]))
    assert all(name.replace("_", "-") in brought for name in probes._NEEDS)
    assert all(f"cuassay[{probes.JUDGE}]" in extras[kind] for kind in ("cpu", "gpu"))

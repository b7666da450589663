"""Launches of a candidate's own kernels: counted, refused, disarmed; others are not its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cuassay.build.recording import ledger as launch_ledger
from cuassay.build.recording.ledger import Ledger, count_triton
from cuassay.model.steps import Disarm
from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.observe import launches

SOURCE = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, 2.0 * tl.load(x + at))

@triton.jit
def idle(x):
    tl.store(x, 0.0)

@triton.jit
def broken(x):
    tl.store(x, undefined_name)

def run(x, kernel=double):
    y = torch.full_like(x, -1.0)
    kernel[(1,)](x, y, BLOCK=8)
    return y
"""


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Give each test a ledger of its own, wherever the one of the process is used."""
    fresh = Ledger()
    monkeypatch.setattr(launch_ledger, "LEDGER", fresh)
    monkeypatch.setattr(launches, "LEDGER", fresh)
    return fresh


@pytest.fixture
def kernels(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a candidate's Triton kernels as a worker on a CPU does."""
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("interpreted where there is no GPU")
    from cuassay.build.interpreter.install import enable

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    enable()
    file = tmp_path / "kernel.py"
    file.write_text(SOURCE)
    count_triton(tmp_path, SOURCE)
    spec = importlib.util.spec_from_file_location("launch_test_kernels", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def facts() -> dict[str, str]:
    return dict(launches.read(Around()).facts)


def test_kernels_are_known_before_their_first_launch(kernels: ModuleType) -> None:
    assert facts() == {"launched double": "0", "launched idle": "0", "launched broken": "0"}


def test_launches_are_counted_and_do_what_they_did(kernels: ModuleType) -> None:
    x = torch.arange(8.0)
    for _ in range(3):
        assert torch.equal(kernels.run(x), 2.0 * x)
    assert facts()["launched double"] == "3"
    assert facts()["launched idle"] == "0"


def test_a_launch_that_raises_is_named_and_raises_as_before(kernels: ModuleType) -> None:
    with pytest.raises(Exception, match="undefined_name"):
        kernels.broken[(1,)](torch.zeros(1))
    found = facts()
    assert found["launched broken"] == found["raised broken"] == "1"
    assert "undefined_name" in found["reason broken"]


def test_disarmed_kernels_write_nothing_and_are_still_counted(kernels: ModuleType) -> None:
    x = torch.arange(8.0)
    launches.disarm(Around(), Disarm())
    assert torch.equal(kernels.run(x), torch.full_like(x, -1.0))
    launches.disarm(Around(), Disarm(active=False))
    assert torch.equal(kernels.run(x), 2.0 * x)
    assert facts()["launched double"] == "2"


def test_kernels_of_other_files_are_not_the_candidates(
    kernels: ModuleType, tmp_path: Path, ledger: Ledger
) -> None:
    ledger.root = f"{tmp_path / 'elsewhere'}/"
    launches.disarm(Around(), Disarm())
    x = torch.arange(8.0)
    assert torch.equal(kernels.run(x), 2.0 * x)
    assert facts()["launched double"] == "0"


def test_an_autotuned_kernel_counts(kernels: ModuleType) -> None:
    import triton

    tuned = triton.autotune(configs=[triton.Config({"BLOCK": 8})], key=[])(kernels.double)
    x, y = torch.arange(8.0), torch.zeros(8)
    tuned[(1,)](x, y)
    assert torch.equal(y, 2.0 * x)
    assert facts()["launched double"] != "0"


def test_what_launches_unseen_is_said(tmp_path: Path, ledger: Ledger) -> None:
    count_triton(tmp_path, "f = torch.compile(g)")
    assert facts() == {launches.BLIND: "torch.compile"}


def test_a_ledger_counts_any_launch_once() -> None:
    ledger, done = Ledger(), []
    ledger.define("scale")
    ledger.launch("scale", lambda: done.append(1))
    ledger.disarmed = True
    ledger.launch("scale", lambda: done.append(2))
    assert done == [1]
    assert ledger.asked == {"scale": 2}
    assert ledger.raised == {}


def test_names_and_reasons_are_short() -> None:
    ledger = Ledger()

    def fail() -> None:
        raise ValueError("x" * 10_000)

    with pytest.raises(ValueError, match="xxx"):
        ledger.launch("k" * 10_000, fail)
    assert all(len(name) <= 200 for name in (*ledger.asked, *ledger.reasons.values()))

"""Process-wide state: what is read, what counts as a difference, what reading leaves alone."""

from __future__ import annotations

import functools
import gc
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest
import torch

from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.observe import process_probes, process_state, state_snapshot


def changed(act: Callable[[], object]) -> Mapping[str, tuple[str, str]]:
    before = state_snapshot.snapshot()
    act()
    return state_snapshot.differences(before, state_snapshot.snapshot())


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Put back what the tests change."""
    precision, dtype = torch.get_float32_matmul_precision(), torch.get_default_dtype()
    threads, folder = torch.get_num_threads(), os.getcwd()
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    handler = signal.getsignal(signal.SIGUSR1)
    yield
    torch.set_float32_matmul_precision(precision)
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(True)
    torch.backends.cudnn.benchmark = False
    os.chdir(folder)
    gc.enable()
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])
    signal.signal(signal.SIGUSR1, handler)


def test_nothing_changes_by_itself_or_by_reading() -> None:
    assert changed(state_snapshot.snapshot) == {}


def test_reading_warns_of_nothing_and_keeps_the_filters() -> None:
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        state_snapshot.snapshot()
    assert seen == []
    assert list(warnings.filters) == before


def test_precision_flags_are_seen_under_every_name() -> None:
    found = changed(lambda: torch.set_float32_matmul_precision("high"))
    assert found["flag torch.float32_matmul_precision"] == ("highest", "high")
    assert found["flag torch.backends.cuda.matmul.allow_tf32"] == ("False", "True")


def test_a_precision_that_is_put_back_is_no_difference() -> None:
    def act() -> None:
        torch.set_float32_matmul_precision("medium")
        torch.set_float32_matmul_precision("highest")

    assert changed(act) == {}


def test_a_flag_set_through_its_newer_twin_is_seen_and_raises_nothing() -> None:
    def act() -> None:
        torch.backends.cuda.matmul.fp32_precision = "tf32"

    before = torch.backends.cuda.matmul.fp32_precision
    try:
        name = "flag torch.backends.cuda.matmul.fp32_precision"
        assert changed(act)[name] == ("ieee", "tf32")
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


CHANGES: Mapping[str, Callable[[], object]] = {
    "flag torch default dtype": lambda: torch.set_default_dtype(torch.float64),
    "flag torch grad mode": lambda: torch.set_grad_enabled(False),
    "flag torch threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "flag torch.backends.cudnn.benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "generator torch on cpu": lambda: torch.rand(1),
    "generator random": random.random,
    "generator numpy.random": lambda: np.random.rand(1),
    "seed of torch on cpu": lambda: torch.manual_seed(torch.initial_seed() ^ 5),
    "process working directory": lambda: os.chdir("/"),
    "process garbage collector": gc.disable,
    "process handler of SIGUSR1": lambda: signal.signal(signal.SIGUSR1, lambda *_: None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_under_its_name(name: str) -> None:
    assert name in changed(CHANGES[name])


def test_patched_functions_are_seen_even_under_a_borrowed_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = torch.equal

    @functools.wraps(torch.cuda.synchronize)
    def wait(device: object = None) -> None:
        return None

    def act() -> None:
        monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
        monkeypatch.setattr(torch.cuda, "synchronize", wait)
        monkeypatch.setattr(torch.Tensor, "equal", lambda *_: True)
        monkeypatch.setattr(torch, "equal", original)

    names = set(changed(act))
    assert {"function time.perf_counter", "function torch.cuda.synchronize"} <= names
    assert any(name.endswith("Tensor.equal") for name in names)
    assert "function torch.equal" not in names


def test_what_torch_puts_in_the_place_of_its_own_functions_is_no_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act() -> None:  # as compiling a function does
        monkeypatch.setattr(torch, "manual_seed", torch.random.seed)

    assert changed(act) == {}


def test_environment_variables_come_change_and_go_without_their_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUASSAY_TEST_OLD", "secret one")
    monkeypatch.setenv("CUASSAY_TEST_GONE", "secret two")

    def act() -> None:
        monkeypatch.setenv("CUASSAY_TEST_OLD", "secret three")
        monkeypatch.setenv("CUASSAY_TEST_NEW", "secret four")
        monkeypatch.delenv("CUASSAY_TEST_GONE")
        monkeypatch.setenv("TRITON_CACHE_DIR", "/of our own build")

    found = changed(act)
    assert set(found) == {f"environment CUASSAY_TEST_{which}" for which in ("OLD", "NEW", "GONE")}
    assert "secret" not in str(found)
    assert found["environment CUASSAY_TEST_NEW"][0] == state_snapshot.ABSENT


def test_what_cannot_be_read_on_one_side_is_no_difference() -> None:
    before, after = {"flag a": "1", "flag b": "2"}, {"flag b": "3", "flag c": "4"}
    assert state_snapshot.differences(before, after) == {"flag b": ("2", "3")}


def test_a_broken_reading_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, str]:
        raise RuntimeError("no")

    monkeypatch.setattr(process_probes, "signals", broken)
    assert "flag torch threads" in state_snapshot.snapshot()


def test_every_kind_of_reading_has_a_known_first_word() -> None:
    words = {name.split()[0] for name in state_snapshot.snapshot()}
    assert words == {
        *("flag", "generator", "seed", "function", "library", "environment", "process"),
    }


def test_a_read_reports_old_and_new_and_needs_a_baseline() -> None:
    around = Around(baseline=state_snapshot.snapshot())
    gc.disable()
    assert process_state.read(around).facts == (("process garbage collector", "on -> off"),)
    with pytest.raises(RuntimeError, match="no baseline"):
        process_state.read(Around())


def test_reading_starts_no_cuda() -> None:
    before = process_probes._CUDA_IS_UP()
    state_snapshot.snapshot()
    assert process_probes._CUDA_IS_UP() == before


def test_numbers_round_to_nearest_and_denormals_are_kept() -> None:
    found = state_snapshot.snapshot()
    assert found["flag denormal numbers"] == "kept"
    assert found["flag rounding"] == "to nearest"
    assert sys.float_info.min * 0.5 > 0.0

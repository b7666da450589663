"""Autotuners tune once for a candidate, and every process uses what they chose."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.build import tuned

pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, Config

async_compile = pytest.importorskip("triton.runtime._async_compile")

Calls = list[object]
_BRIEF = [8] * 4 + [2] * 4 + [4] * 4  # one call compiles, three are timed
_ALONE = [2] * 4  # Triton's own benchmark still calls more than once on the same buffers


class _Clock:
    """A clock that kernels alone move: no choice depends on what else this machine does."""

    now_s = 0.0

    @classmethod
    def perf_counter(cls) -> float:
        return cls.now_s


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Triton's own, whatever a test before this one has put in their place.
    spec = importlib.util.find_spec("triton.runtime.autotuner")
    assert spec is not None
    assert spec.loader is not None
    unchanged = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(unchanged)
    for name in ("__init__", "run", "_bench", "prune_configs"):
        monkeypatch.setattr(Autotuner, name, unchanged.Autotuner.__dict__[name])
    monkeypatch.setattr(tuned, "_lists", 0)
    monkeypatch.setattr(tuned, "_notes", None)
    monkeypatch.setattr(tuned, "time", _Clock)
    tuned.tune_once(tmp_path)
    yield tmp_path
    delattr(Autotuner, tuned._MARK)


class _Kernel:
    """Takes two milliseconds for each unit of its block."""

    def __init__(self, called: Calls) -> None:
        self.called = called

    @staticmethod
    def fn(x: object, n: int, BLOCK: int) -> None:
        """What Triton takes the kernel's name from."""

    def run(self, x: object, n: int, BLOCK: int, **_: object) -> None:
        self.called.append(BLOCK)
        _Clock.now_s += 0.002 * BLOCK


def _process(*sizes: int, without: int = 0) -> Calls:
    """Return the blocks called with at each size, in what a new process would do."""
    called: Calls = []

    def prune(configs: list[Any], _: object, **__: object) -> list[Any]:
        return [config for config in configs if config.kwargs["BLOCK"] != without]

    configs = [Config({"BLOCK": block}) for block in (8, 2, 4)]
    pruning = {"early_config_prune": prune}
    tuner = Autotuner(
        _Kernel(called), ["x", "n", "BLOCK"], configs, ["n"], None, None, prune_configs_by=pruning
    )
    for size in sizes:
        called.append("call")
        tuner.run(object(), size)
    return called


def test_a_second_size_and_a_second_process_use_the_first_choice(folder: Path) -> None:
    assert _process(16, 32) == ["call", *_BRIEF, 2, "call", *_ALONE, 2]
    assert _process(64) == ["call", *_ALONE, 2]


def test_whoever_walks_through_a_list_sees_all_of_it(folder: Path) -> None:
    _process(16)
    tuner = Autotuner(
        _Kernel([]), ["x", "n", "BLOCK"], [Config({"BLOCK": n}) for n in (8, 2, 4)], ["n"],
        None, None,
    )  # fmt: skip
    tuner.nargs = {"x": object(), "n": 16}
    assert len(tuner.prune_configs({})) == 1
    with tuned.whole_lists():
        assert len(tuner.prune_configs({})) == 3
    assert len(tuner.prune_configs({})) == 1


def test_where_pruning_leaves_the_choice_out_it_tunes_again(folder: Path) -> None:
    _process(16)
    assert _process(64, without=2) == ["call", *[8] * 4, *[4] * 4, 4]
    assert _process(64) == ["call", *_ALONE, 2]  # the first choice stays


def test_a_note_that_names_nothing_is_passed_over(folder: Path) -> None:
    _process(16)
    (note,) = (folder / "tuned").iterdir()
    note.write_bytes(b"\xff" * (1 << 16))
    assert _process(64) == ["call", *_BRIEF, 2]


class _Sum(_Kernel):
    """Adds to a sum, which an autotuner clears where it is told to."""

    def run(self, x: Any, n: int, BLOCK: int, **_: object) -> None:
        self.called.append(BLOCK)
        x.add_(1.0)


@pytest.mark.parametrize(("cleared", "left"), [(None, 3.0), (["x"], 1.0)])
def test_a_first_call_tunes_over_two_configurations_and_forgets_it(
    folder: Path, cleared: list[str] | None, left: float
) -> None:
    torch = pytest.importorskip("torch")
    called: Calls = []
    configs = [Config({"BLOCK": block}) for block in (8, 2, 4)]
    tuner = Autotuner(_Sum(called), ["x", "n", "BLOCK"], configs, ["n"], cleared, None)
    tuner.run(torch.zeros(1), 16)
    chosen, before = tuner.best_config, dict(tuner.cache)
    called.clear()
    x = torch.zeros(1)
    with tuned.first_calls() as names:
        tuner.run(x, 16)
    assert (names, called, float(x)) == (["fn"], [8, 2, 8], left)
    assert (tuner.best_config, tuner.cache) == (chosen, before)
    called.clear()
    tuner.run(torch.zeros(1), 16)
    assert called == [chosen.kwargs["BLOCK"]]


def test_lists_of_one_configuration_are_not_counted(folder: Path) -> None:
    assert tuned.lists() == 0
    _process()
    Autotuner(_Kernel([]), ["x"], [Config({})], [], None, None)
    assert tuned.lists() == 1


class _OfALibrary(Autotuner):  # type: ignore[misc]
    """An autotuner whose `run` is its own, as FlagGems has one."""

    def run(self, *given: Any, **named: Any) -> None:
        self.nargs = dict(zip(self.arg_names, given, strict=False))
        timings = {
            config: self._bench(*given, config=config, **named)
            for config in self.prune_configs(named)
        }
        self.best_config = min(timings, key=timings.__getitem__)


def test_a_librarys_autotuner_tunes_once_too(folder: Path) -> None:
    called: Calls = []
    configs = [Config({"BLOCK": block}) for block in (8, 2, 4)]
    tuner = _OfALibrary(_Kernel(called), ["x", "n", "BLOCK"], configs, ["n"], None, None)
    tuner.run(object(), 16)
    assert called == _BRIEF
    called.clear()
    tuner.run(object(), 17)
    assert called == _ALONE


def test_only_autotuners_that_were_called_have_chosen(folder: Path) -> None:
    assert tuned.choices() == 0
    _process()
    assert (tuned.lists(), tuned.choices()) == (1, 0)
    _process(16)
    assert tuned.choices() == 1
    (note,) = (folder / "tuned").iterdir()
    note.with_suffix(".7").write_text("being written")
    assert tuned.choices() == 1


class _Compiled(_Kernel):
    """Notes in which thread each configuration is compiled, as Triton's own kernels are."""

    def __init__(self, called: Calls) -> None:
        super().__init__(called)
        self.compiled: list[tuple[int, int]] = []
        self._at_once = threading.Barrier(3)

    def run(self, x: object, n: int, BLOCK: int, **named: object) -> None:
        if not named.get("warmup"):
            super().run(x, n, BLOCK)
            return

        def compiled() -> None:
            self._at_once.wait(300)  # no thread is free for a second one
            self.compiled.append((BLOCK, threading.get_ident()))
            if BLOCK == 2:
                raise ValueError("too much shared memory")

        mode: Any = async_compile.active_mode.get()
        mode.submit(BLOCK, compiled, lambda _: None)


def test_a_list_is_compiled_on_all_processors_before_it_is_tuned(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    called: Calls = []
    kernel = _Compiled(called)
    configs = [Config({"BLOCK": block}) for block in (8, 2, 4)]
    tuner = Autotuner(kernel, ["x", "n", "BLOCK"], configs, ["n"], None, None)
    tuner[(1,)](object(), 16)
    assert sorted(block for block, _ in kernel.compiled) == [2, 4, 8]
    assert len({thread for _, thread in kernel.compiled}) == 3
    assert called == [*_BRIEF, 2]  # what did not compile is left to the call
    tuner.run(object(), 32)  # of the choice alone nothing is compiled ahead
    assert len(kernel.compiled) == 3


_KERNEL = """
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": n}, num_warps=w) for n in (64, 128) for w in (1, 2)]

@triton.autotune(CONFIGS, ["n"])
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + place, 2 * tl.load(x + place, mask=place < n), mask=place < n)
"""


class _Driver:
    """Says that there is an H100, and can launch nothing."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)


def test_tritons_own_kernels_are_compiled_before_they_are_launched(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(driver, "_active", _Driver())
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "launched_at_once.py").write_text(_KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    kernel: Any = importlib.import_module("launched_at_once").double
    tensors = torch.zeros(256), torch.zeros(256)
    launched = pytest.raises(AttributeError)  # that driver has no launcher
    with launched:
        kernel[(1,)](*tensors, 256)
    compiled = kernel.fn.fn.device_caches[0][0]
    assert len(compiled) == 4
    assert all("ptx" in one.asm for one in compiled.values())


def test_a_hook_of_a_configuration_is_called_by_its_call_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    kernel = _Compiled([])
    configs = [Config({"BLOCK": block}, pre_hook=lambda _: None) for block in (8, 2)]
    tuner = Autotuner(kernel, ["x", "n", "BLOCK"], configs, ["n"], None, None)
    tuner.run(object(), 16)
    assert kernel.compiled == []

"""Triton's autotuners tune once for each candidate, briefly, and use what they chose everywhere.

Triton tunes again in every process and for every new value of a tuner's key, 125 ms a
configuration: a trial has a dozen processes and dozens of sizes, so that most of a trial on a GPU
was spent there (18 kernels of one real problem did not end in 150 s). Here the first process that
meets a tuner compiles its whole list on all processors, tunes over it with a few calls a
configuration, and notes the choice in the candidate's own folder. From then on that configuration
alone is compiled and called, in every process and at every size, also when a finding is replayed.
CONFIG001 walks through the others. Where pruning leaves the choice out, Triton tunes again over
what is left.

What the note says is the candidate's process's word: it can name none but its own configurations.
Interface: triton/runtime/autotuner.py, Triton 3.0 to 3.6.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_CALLS = 3  # timed calls of a configuration, after one that compiles it
FOLDER = "tuned"
NOTE_BYTES = 1 << 12
_MARK = "_cuassay_tunes_once"
_lists = 0
_notes: Path | None = None  # where choices are noted, once autotuners share them
_whole = False  # whether lists are whole again, although a choice is noted
_FEW = 2  # configurations that are enough to see what trial runs leave behind


@contextlib.contextmanager
def whole_lists() -> Iterator[None]:
    """While active an autotuner's list is what its pruning leaves, and not the noted choice."""
    global _whole
    before, _whole = _whole, True
    try:
        yield
    finally:
        _whole = before


@contextlib.contextmanager
def first_calls() -> Iterator[list[str]]:
    """While active every call of an autotuner is the first of its key; yield the kernels' names.

    Triton's own `run` tunes, with the hooks that clear and restore what trial runs write, but over
    two configurations, with one run each and no clock. What was chosen before is chosen again
    afterwards.
    """
    names: list[str] = []
    tuner = importlib.import_module("triton.runtime.autotuner").Autotuner
    run, prune, bench = tuner.run, tuner.prune_configs, tuner._bench

    def first(self: Any, *given: Any, **named: Any) -> Any:
        if len(self.configs) > 1:
            names.append(self.base_fn.__name__)
        before = dict(self.__dict__)
        self.cache = {}
        try:
            return run(self, *given, **named)
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)

    tuner.run, tuner._bench = first, _run_once
    tuner.prune_configs = lambda self, *given, **named: prune(self, *given, **named)[:_FEW]
    try:
        with whole_lists():
            yield names
    finally:
        tuner.run, tuner.prune_configs, tuner._bench = run, prune, bench


def _run_once(self: Any, *given: Any, config: Any, **named: Any) -> list[float]:
    """Run a kernel once between the autotuner's hooks, as a benchmark that takes no time."""
    chosen = {**named, **config.all_kwargs()}
    arguments = {**self.nargs, **chosen}
    if config.pre_hook is not None:
        config.pre_hook(arguments)
    self.pre_hook(arguments)
    try:
        self.fn.run(*given, **chosen)
    except Exception as error:
        self.post_hook(arguments, exception=error)
        raise
    self.post_hook(arguments, exception=None)
    return [1.0, 1.0, 1.0]


def lists() -> int:
    """Return how many autotuners with more than one configuration this process has made.

    A library of kernels makes all of its own, of which a candidate calls one.
    """
    return _lists


def choices() -> int:
    """Return how many autotuners have chosen a configuration, in any process of the candidate."""
    if _notes is None or not _notes.is_dir():
        return 0
    return sum(not note.suffix for note in _notes.iterdir())  # others are being written


def tune_once(folder: Path) -> None:
    """Let the autotuners of this process share their choices through `folder`, from now on.

    Does nothing where this Triton has no autotuner of the known form.
    """
    global _notes
    try:
        tuner = importlib.import_module("triton.runtime.autotuner").Autotuner
        made, run, bench = tuner.__init__, tuner.run, tuner._bench
        prune = tuner.prune_configs
    except (ImportError, AttributeError):
        return
    if hasattr(tuner, _MARK):
        return
    _notes = notes = folder / FOLDER

    @functools.wraps(made)
    def count(self: Any, *given: Any, **named: Any) -> None:
        global _lists
        made(self, *given, **named)
        _lists += len(self.configs) > 1

    @functools.wraps(bench)
    def briefly(self: Any, *given: Any, **named: Any) -> Any:
        self.__dict__["do_bench"] = brief  # where a cached property keeps its value
        return bench(self, *given, **named)

    def note(self: Any) -> None:
        # Write a choice unless another process was first: all of a trial's processes use one
        if self.__dict__.pop("_cuassay_open", False) and hasattr(self, "best_config"):
            place = notes / _name(self)
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                own = place.with_suffix(f".{os.getpid()}")
                own.write_text(str(self.best_config), encoding="utf-8")
                with contextlib.suppress(FileExistsError):
                    os.link(own, place)
                own.unlink()

    @functools.wraps(prune)
    def chosen_alone(self: Any, *given: Any, **named: Any) -> Any:
        note(self)  # a library's autotuner may have a `run` of its own
        usable = prune(self, *given, **named)
        if len(usable) < 2 or _whole:
            return usable
        choice = _read(notes / _name(self))
        kept = [config for config in usable if str(config) == choice]
        self.__dict__["_cuassay_open"] = not kept
        if not kept and given:
            compile_ahead(self, usable, given[0])
        return kept[:1] or usable

    @functools.wraps(run)
    def noting(self: Any, *given: Any, **named: Any) -> Any:
        result = run(self, *given, **named)
        note(self)
        return result

    tuner.__init__, tuner._bench, tuner.run = count, briefly, noting
    tuner.prune_configs = chosen_alone
    setattr(tuner, _MARK, True)


def compile_ahead(tuner: Any, configs: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Compile a call's kernel with each of some configurations, on all processors at once.

    Inside a call of `tuner`, `named` what it was given by name. Most of a kernel's compilation
    holds no lock of Python's: LLVM's passes, and ptxas in a process of its own. Triton tunes, and
    we walk through configurations, one after the other on one processor: 20 to 40 s of a trial.
    Does nothing without a GPU in use, and where this Triton cannot (before 3.5); what does not
    compile is told by its call.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    try:
        made = importlib.import_module("triton.runtime._async_compile").AsyncCompileMode
    except (ImportError, AttributeError):
        return
    count = min(len(configs), len(os.sched_getaffinity(0)))
    # A hook may change what is compiled, and is the candidate's to call: once, in its own call.
    if count < 2 or any(config.pre_hook is not None for config in configs):
        return
    with (
        contextlib.suppress(Exception),
        ThreadPoolExecutor(count) as threads,
        made(threads, ignore_errors=True),
    ):
        for config in configs:
            options = {**named, **config.all_kwargs(), "warmup": True}
            with contextlib.suppress(Exception):
                tuner.fn.run(*tuner.nargs.values(), **options)


def brief(
    kernel_call: Callable[[], object], quantiles: Sequence[float] = (0.5, 0.2, 0.8), **_: object
) -> list[float]:
    """Return the least time of a few calls in ms, once for each quantile, as do_bench would."""
    import torch

    kernel_call()
    spent_ms = []
    if torch.cuda.is_available():
        pairs = []
        for _call in range(_CALLS):
            make: Any = torch.cuda.Event
            begin, end = make(enable_timing=True), make(enable_timing=True)
            begin.record()
            kernel_call()
            end.record()
            pairs.append((begin, end))
        torch.cuda.synchronize()
        spent_ms = [begin.elapsed_time(end) for begin, end in pairs]
    else:
        for _call in range(_CALLS):
            begun = time.perf_counter()
            kernel_call()
            spent_ms.append(1e3 * (time.perf_counter() - begun))
    return [min(spent_ms)] * len(quantiles)


def _name(tuner: Any) -> str:
    """Return a file name for a tuner: its kernel and its list of configurations."""
    code = tuner.base_fn.__code__
    place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    said = [place, tuner.base_fn.__qualname__, *map(str, tuner.configs)]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]


def _read(note: Path) -> str:
    with contextlib.suppress(OSError), open(note, encoding="utf-8", errors="replace") as file:
        return file.read(NOTE_BYTES)
    return ""

"""Which tactics a kernel has for a call, and a call with one of them.

This file travels as text beside a kernel to the kernel's own process, and imports nothing of
cuassay. What it says there is the kernel's process's word: it can hold a kernel to a tactic, and
decides nothing. Objects are known by what they offer, so that no library is imported for it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

_NAME = 160  # characters of a tactic's name


class _Tactics(Protocol):
    kind: str
    static: bool  # the same ones for every call

    def valid(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return the tactics that a call with these arguments may take, by name."""

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call with a tactic; where it is not valid for the arguments, with the default."""


class _Declared:
    """A function with `tactics`, a list or a function of the arguments, that takes `tactic=`."""

    kind = "tactics"

    def __init__(self, entry: Any) -> None:
        self._entry = entry
        self.static = not callable(entry.tactics)

    def valid(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        listed = self._entry.tactics
        return _named(listed(*arguments) if callable(listed) else listed)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        usable = self.valid(arguments)
        if name not in usable:
            return self._entry(*arguments)
        return self._entry(*arguments, tactic=usable[name])


class _Runner:
    """FlashInfer's TunableRunner: `get_valid_tactics(inputs, profile)`, `forward(inputs, tactic)`.

    Its tactic -1 is the fallback, which a call takes where no other is valid. Interface:
    flashinfer/autotuner/autotuner.py, 0.7.
    """

    kind = "FlashInfer runner"
    static = False

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._prepared: set[str] = set()

    def valid(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        inputs = list(arguments)
        # The profile of a call: every dimension is of one size
        tuner: Any = sys.modules.get("flashinfer.autotuner")
        sizes = [list(getattr(value, "shape", ())) for value in inputs]
        initializers = [None] * len(inputs)
        if tuner is None:
            profile = importlib.import_module("types").SimpleNamespace(
                shapes=sizes, tensor_initializers=initializers, get_opt_shapes=lambda: sizes
            )
        else:
            shapes = [[tuner.StaticDim(size) for size in shape] for shape in sizes]
            profile = tuner.OptimizationProfile(shapes, initializers)
        found = list(self._runner.get_valid_tactics(inputs, profile))
        return _named([*found, -1] if -1 not in found else found)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        inputs = list(arguments)
        tactic = self.valid(arguments).get(name, -1)
        shapes = str([getattr(value, "shape", None) for value in inputs])
        if shapes not in self._prepared:  # once for a size, as the autotuner does
            self._prepared.add(shapes)
            self._runner.forward(inputs, tactic=-1, do_preparation=True)
        return self._runner.forward(inputs, tactic=tactic)


class _Configured:
    """A kernel that is compiled for arguments with one of its `configs`, as Helion's are."""

    kind = "configurations"
    static = True

    def __init__(self, kernel: Any) -> None:
        self._kernel, self._all = kernel, _named(kernel.configs)

    def valid(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        return self._all

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self._kernel.configs = [self._all[name]]
        return self._kernel(*arguments)


class _Tuned:
    """The autotuners in a kernel's files, walked through together: the n-th of each list.

    A list that is shorter begins again. Interface: the module runtime/autotuner.py of Triton 3.0
    to 3.6, whose name stands nowhere here: a kernel is told by the names in its files.
    """

    kind = "autotuner"
    static = True

    def __init__(self, entry: Any, tuners: list[Any]) -> None:
        self._entry = entry
        self._lists = [(tuner, list(tuner.configs)) for tuner in tuners]
        rows = [
            tuple(configs[number % len(configs)] for _, configs in self._lists)
            for number in range(max(len(configs) for _, configs in self._lists))
        ]
        words = [
            "; ".join(f"{_kernel(t)}: {c}" for t, c in zip(tuners, row, strict=False))
            for row in rows
        ]
        self._all = _named(rows, words)
        self._held = ""

    def valid(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        return self._all

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if self._held != name:
            self._held = name
            for (tuner, configs), chosen in zip(self._lists, self._all[name], strict=False):
                _hold(tuner, configs, chosen)
        return self._entry(*arguments)


def _hold(tuner: Any, configs: list[Any], chosen: Any) -> None:
    """Let an autotuner have one configuration, or another where its pruning leaves that one out."""
    prune = getattr(tuner, "early_config_prune", None)

    def run(*given: Any, **named: Any) -> Any:
        if prune is not None:
            nargs = dict(zip(tuner.arg_names, given, strict=False))
            usable = list(prune(configs, nargs, **named)) or configs
            tuner.configs = [chosen] if any(one is chosen for one in usable) else usable[:1]
        return type(tuner).run(tuner, *given, **named)

    tuner.configs = [chosen]
    tuner.run = run


def pinned(entry: Any, name: str) -> Callable[..., Any]:
    """Return a function that calls `entry` with the tactic `name`."""
    found = _tactics(entry)
    if found is None:
        raise LookupError(f"the kernel has no tactics, so none is called {name!r}")

    def run(*arguments: Any) -> Any:
        return found.call(name, arguments)

    return run


def listing(entry: Any) -> Callable[..., Any]:
    """Return a function of the inputs that returns JSON as a tensor of bytes."""

    def run(*arguments: Any) -> Any:
        import torch

        found = _tactics(entry)
        told = {
            "kind": found.kind if found else "",
            "static": found.static if found else True,
            "names": list(found.valid(arguments)) if found else [],
        }
        return torch.tensor(list(json.dumps(told).encode()), dtype=torch.uint8)

    return run


def _tactics(entry: Any) -> _Tactics | None:
    if hasattr(entry, "tactics"):
        return _Declared(entry)
    if hasattr(entry, "get_valid_tactics") and hasattr(entry, "forward"):
        return _Runner(entry)
    if hasattr(entry, "configs") and hasattr(entry, "bind"):
        return _Configured(entry)
    tuners = _autotuners()
    return _Tuned(entry, tuners) if tuners else None


def _autotuners() -> list[Any]:
    """Return the autotuners with several configurations in modules of this file's folder."""
    folder = os.path.dirname(os.path.abspath(__file__)) + os.sep
    found: dict[int, Any] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or not os.path.abspath(file).startswith(folder):
            continue
        for value in list(vars(module).values()):
            for _ in range(8):  # heuristics and the like hold what they decorate as `fn`
                configs = getattr(value, "configs", None)
                if isinstance(configs, list) and hasattr(value, "prune_configs"):
                    if len(configs) > 1:
                        found.setdefault(id(value), value)
                    break
                value = getattr(value, "fn", None)
    return sorted(found.values(), key=_kernel)


def _kernel(tuner: Any) -> str:
    return str(getattr(tuner.base_fn, "__name__", "kernel"))


def _named(values: Iterable[Any], words: Iterable[Any] | None = None) -> dict[str, Any]:
    """Return values by their text in one line; equal texts are numbered."""
    found: dict[str, Any] = {}
    every = list(values)
    for value, word in zip(every, every if words is None else words, strict=False):
        text = "".join(c for c in " ".join(str(word).split()) if c.isprintable())[:_NAME]
        number = 2
        name = text
        while name in found:
            name, number = f"{text} #{number}", number + 1
        found[name] = value
    return found

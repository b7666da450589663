"""Calls with each configuration of the candidate's autotuners, instead of the one that is fastest.

Triton's own `Autotuner.run` is replaced for the time of the calls by one that takes the
configuration of a given number: everything else (pruning, hooks, arguments) is Triton's. See
triton/runtime/autotuner.py. What it says of configurations is the candidate's process's word.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from cuassay.build import tuned
from cuassay.model.scenario import Poison
from cuassay.model.steps import Configurations
from cuassay.model.trace import ResultItem
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.callers.streams import copies, settle
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.memory.placement import poisoned_memory

# What Triton's own autotuner counts as infinitely slow, by name: too much shared memory and so on.
_REFUSALS = ("OutOfResources", "CompileTimeAssertionFailure", "PTXASError")
_UNCOVERED = "UncoveredError"
_TEXT = 300
_AHEAD = 16  # configurations compiled at once


@dataclass(slots=True)
class _Choice:
    """Which configuration every autotuner takes, and what each took in the call under way."""

    covering: bool = False
    number: int = 0
    longest: int = 0  # of the lists that are walked through
    all: int = 0  # of the longest list
    taken: list[str] = field(default_factory=list)


def configurations(host: Host, step: Configurations) -> Made:
    """Execute a Configurations step."""
    if "triton" not in sys.modules:
        return Made(facts=(("configurations", "0"),))
    facts: list[tuple[str, str]] = []
    found: list[ResultItem] = []
    tensors: list[Any] = []
    places: dict[str, str] = {}
    begun = time.perf_counter()
    choice = _Choice(covering=step.covering)

    def add(held: list[tuple[str, object]]) -> str:
        """Add the items of one result, their tensors among those that are sent; return where."""
        place = f"{len(found)}:{len(held)}"
        for name, value in held:
            item = items.describe(value, name=name, inputs={})
            if item.kind == "tensor" and isinstance(value, Tensor):
                item = replace(item, buffer=len(tensors))
                tensors.append(items.plain_tensor(value))
            found.append(item)
        return place

    with tuned.whole_lists(), _forced(choice):
        while choice.number < min(max(choice.longest, 1), step.most):
            if choice.number and time.perf_counter() - begun > step.budget_s:
                break
            number, choice.taken = choice.number, []
            refused, held = _called(host, step, is_another=step.covering or number > 0)
            taken = "; ".join(dict.fromkeys(choice.taken))
            if refused:
                facts.append((f"refused {number}", refused))
            elif choice.taken and not step.covering:
                named = [(name, value) for name, value in held if isinstance(value, Tensor)]
                described = [
                    (items.describe(value, name=name, inputs={}), value) for name, value in named
                ]
                plain = [
                    items.plain_tensor(value) for item, value in described if item.kind == "tensor"
                ]
                digest = items.digest(plain)
                if digest not in places and len(places) < step.kept:
                    places[digest] = add(held)
                if digest in places:
                    facts.append((f"result {number}", places[digest]))
            facts.append((f"configuration {number}", taken[:_TEXT]))
            choice.number += 1
    if choice.longest > 1 and not step.covering:
        with tuned.first_calls() as tuners:
            refused, held = _called(host, step, is_another=True)
        if tuners and not refused:
            facts.append(("tuned", "; ".join(dict.fromkeys(tuners))[:_TEXT]))
            facts.append(("first", add(held)))
    facts += [("configurations", str(choice.all)), ("autotuners", str(tuned.choices()))]
    return Made(items=tuple(found), tensors=tuple(tensors), facts=tuple(facts))


def _called(
    host: Host, step: Configurations, *, is_another: bool
) -> tuple[str, list[tuple[str, object]]]:
    """Return why the GPU cannot run it, or nothing, and copies of what the call returned.

    The PTX machine may not cover what `is_another` configuration than the first one.
    """
    outputs = host.destinations(step.slot, Poison.NAN)
    settle(host)
    try:
        with poisoned_memory(Poison.NAN, host.device):
            held = copies(host.invoke(step.slot, outputs))
        settle(host)
    except Exception as error:
        names = {kind.__name__ for kind in type(error).__mro__}
        if names.isdisjoint((*_REFUSALS, _UNCOVERED) if is_another else _REFUSALS):
            raise
        return f"{type(error).__name__}: {error}"[:_TEXT], []
    return "", held


def covering(configs: Sequence[Any]) -> Sequence[Any]:
    """Return configurations, few of them, that have each value which the first one has not.

    The one with the most values that none before has comes next. The first one alone where all
    are like it.
    """
    values = [frozenset(map(repr, config.all_kwargs().items())) for config in configs]
    left = frozenset[str]().union(*values) - values[0]
    found = []
    while left:
        best = max(range(len(configs)), key=lambda number: len(values[number] & left))
        found.append(configs[best])
        left -= values[best]
    return found or configs[:1]


@contextlib.contextmanager
def _forced(choice: _Choice) -> Iterator[None]:
    """While active every autotuner takes the configuration of the choice's number."""
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner
    original = autotuner.run

    def run(self: Any, *given: Any, **named: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, given, strict=False))
        usable = self.prune_configs(named) if len(self.configs) > 1 else self.configs
        choice.all = max(choice.all, len(usable))
        if choice.covering:
            usable = covering(usable)
        place = choice.number % len(usable)
        if place % _AHEAD == 0:
            tuned.compile_ahead(self, usable[place : place + _AHEAD], named)
        config = usable[place]
        choice.longest = max(choice.longest, len(usable))
        choice.taken.append(f"{self.base_fn.__name__}: {config}")
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **named, **config.all_kwargs()})
        try:
            return self.fn.run(*given, **named, **config.all_kwargs())
        finally:
            self.nargs = None

    autotuner.run = run
    try:
        yield
    finally:
        autotuner.run = original

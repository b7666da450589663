"""The same kernels as they behave in another launch.

In one that is not cooperative, or that ends where it would wait for the launch before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxsan import globals as variables
from ptxsan import heap
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.syntax import Module

_WORKSPACE = ("%envreg1", "%envreg2")  # where cooperative groups find the barrier of the grid
_WAIT = "griddepcontrol.wait;"


@dataclass(slots=True)
class Variants:
    """Modules with the same variables as others, and other words in their text."""

    _made: dict[str, Module] = field(default_factory=dict)

    def alone(self, module: Module, *, cooperative: bool) -> Module:
        """Return the module as a launch sees it: one that is not cooperative has no workspace.

        `grid.sync()` traps there, and `grid.is_valid()` is false.
        """
        if cooperative or not any(one in module.text for one in _WORKSPACE):
            return module
        return self._with(module, dict.fromkeys(_WORKSPACE, "0"))

    def until_it_waits(self, module: Module, kernel: str) -> Module | None:
        """Return the module whose threads end where they wait for the launch before them.

        None where the kernel never does.
        """
        body = build(module, kernel).body
        if not any(one.base == "griddepcontrol" and "wait" in one.parts for one in body):
            return None
        return self._with(module, {_WAIT: "exit;"})

    def _with(self, module: Module, words: dict[str, str]) -> Module:
        text = module.text
        for word, other in words.items():
            text = text.replace(word, other)
        if text not in self._made:
            self._made[text] = parse(text)
        variables.share(module, self._made[text])
        heap.share(module, self._made[text])
        return self._made[text]

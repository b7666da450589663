"""Memory of a module's own variables: it lives as long as the module, over many launches."""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray

from ptxsan.declarations import size_of
from ptxsan.emit.frame import global_address
from ptxsan.program import Program, variables_of
from ptxsan.syntax import Module

_MEMORY: weakref.WeakKeyDictionary[Module, dict[str, NDArray[np.uint8]]] = (
    weakref.WeakKeyDictionary()
)


def module_memory(module: Module, program: Program) -> dict[str, NDArray[np.uint8]]:
    """Return the bytes of each global and constant variable, made and initialised on first use."""
    found = _MEMORY.setdefault(module, {})
    every = {one.name: one for one in (*variables_of(module), *program.globals)}
    new = [one for name, one in every.items() if name not in found]
    if new:
        places = {one.name: global_address(index) for index, one in enumerate(program.globals)}
        places |= program.functions
        for one in new:
            memory = np.zeros(max(1, one.count * size_of(one.type)), np.uint8)
            if one.initial is not None:
                memory[: len(one.initial)] = np.frombuffer(one.initial, np.uint8)
            for offset, symbol in one.addresses:
                value = places.get(symbol.name, 0) + symbol.offset
                memory[offset : offset + 8] = np.frombuffer(value.to_bytes(8, "little"), np.uint8)
            found[one.name] = memory
    return found


def adopt(module: Module, name: str, memory: NDArray[np.uint8]) -> None:
    """Let a variable live in memory that somebody else keeps, with what that holds."""
    _MEMORY.setdefault(module, {})[name] = memory


def share(module: Module, other: Module) -> None:
    """Give a second module the variables of a first one, of the same names."""
    _MEMORY[other] = _MEMORY.setdefault(module, {})

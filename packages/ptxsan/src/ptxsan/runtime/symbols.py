"""Addresses of the runtime's functions, compiled when the first kernel needs them."""

from __future__ import annotations

import contextlib
import importlib

from ptxsan.errors import MachineError
from ptxsan.runtime import prebuilt, warming
from ptxsan.runtime.native import address, cache_folder, exported
from ptxsan.runtime.prebuilt import load_algebra, load_helpers

_SLOWEST = ("collective:mma_float", "rt_run", "rt_access_global", "f_binary")  # to compile
_OF_ALGEBRA = ("al_", "collective:mma_algebra")


def addresses(names: tuple[str, ...]) -> dict[str, int]:
    """Return the addresses of runtime functions, prebuilt ones where there are any.

    Raises MachineError for a name that no module exports.
    """
    found = {}
    for name in names:
        place = prebuilt.address(name)
        if place is not None:
            found[name] = place
            continue
        load_helpers()
        if name.startswith(_OF_ALGEBRA):
            load_algebra()
        place = address(name)
        if place is None:
            raise MachineError(f"the runtime has no function '{name}'")
        found[name] = place
    return found


def handler(name: str) -> int:
    """Return the address of the handler of a warp collective."""
    return addresses((f"collective:{name}",))[f"collective:{name}"]


def run_address() -> int:
    """Return the address of the scheduler."""
    return addresses(("rt_run",))["rt_run"]


def warm() -> None:
    """Compile or load everything the runtime may need; leaves no thread and no process behind.

    The first time, several processes compile: call it where forking is safe. A prebuilt runtime
    is loaded, with nothing compiled; where none can be made numba compiles function by function.
    """
    if not prebuilt.names():
        prebuilt.make()
    if names := prebuilt.names():
        addresses(tuple(name for name in names if not name.startswith(_OF_ALGEBRA)))
        return
    load_helpers()
    ordered = sorted(exported(), key=lambda name: name not in _SLOWEST)
    whole = cache_folder() / "whole"
    if not whole.exists():
        warming.together(ordered, address, count=warming.processes())
    for name in ordered:
        address(name)
    with contextlib.suppress(OSError):
        whole.touch()


def warm_algebra() -> None:
    """Compile or load what runs in the algebra need beside that; starts no process."""
    load_algebra()
    importlib.import_module("ptxsan.runtime.algebra").prepare()
    addresses(tuple(name for name in exported() if name.startswith(_OF_ALGEBRA)))

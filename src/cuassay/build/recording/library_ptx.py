"""Launches of shared libraries, shown to a recorder with their PTX and their arguments.

The PTX is what the library itself carries beside its machine code: extensions are built with both
(see `compile_units`). A library without PTX launches as ever, and the recording says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cuassay.build.cuda.binaries import ptx_in
from cuassay.build.recording.library_launches import LibraryLaunch
from cuassay.build.recording.library_maps import in_machine_form
from cuassay.build.recording.recorder import LaunchRecorder, SeenLaunch
from cuassay.errors import MissingToolError

if TYPE_CHECKING:
    from ptxsan.syntax import Module

_FAILED = 719  # cudaErrorLaunchFailure
_VARIABLE_BYTES = 1 << 22


def record_library_launch(
    recorder: LaunchRecorder, asked: LibraryLaunch, go: Callable[[], int]
) -> int:
    """Do a launch and keep it where that can be done; return the runtime's status.

    Nothing is raised: the caller is C code. What a launch does to the device shows there when
    the program next waits for it.
    """
    status: list[int] = []

    def launch() -> None:
        status.append(go())

    try:
        name = asked.kernel()
    except MissingToolError:
        name = asked.library.name
    with contextlib.suppress(Exception):
        recorder.launch(name, lambda: launch_with_ptx(asked), launch)
    return status[-1] if status else _FAILED


def launch_with_ptx(asked: LibraryLaunch) -> SeenLaunch:
    """Return a launch with its kernel's PTX and arguments. Raises MissingToolError."""
    from ptxsan.declarations import size_of
    from ptxsan.program import build

    name = asked.kernel()
    for module in _modules(asked.library):
        kernel = module.functions.get(name)
        if kernel is not None and kernel.entry:
            sizes = [size_of(one.type) * one.count for one in kernel.params]
            made = [in_machine_form(one) for one in asked.arguments(sizes)]
            program = build(module, name)
            tiles = any(one.base == "cp" and "tensor" in one.parts for one in program.body)
            if tiles and not any(count for _, count in made):
                raise MissingToolError(
                    "it copies tiles by a tensor map that was not encoded where cuassay sees it"
                )
            return SeenLaunch(
                ptx=module.text,
                kernel=name,
                grid=asked.grid,
                block=asked.block,
                cluster=asked.cluster,
                shared_bytes=asked.shared_bytes,
                arguments=[one for one, _ in made],
                variables=asked.variables(
                    one.name
                    for one in program.globals
                    if one.initial is None and one.count * size_of(one.type) <= _VARIABLE_BYTES
                ),
            )
    raise MissingToolError(f"'{asked.library.name}' carries no PTX of the kernel")


@cache
def _modules(library: Path) -> tuple[Module, ...]:
    from ptxsan.errors import MachineError
    from ptxsan.parser import parse

    try:
        found = [parse(text) for text in ptx_in(library)]
    except MachineError as error:
        raise MissingToolError(f"the PTX of '{library.name}' is not understood: {error}") from None
    # A library for several architectures: what this GPU runs comes first.
    return tuple(sorted(found, key=lambda one: _distance(one.target)))


def _distance(target: str) -> tuple[bool, int]:
    """Return how far the architecture of a PTX text is from this GPU's, later ones last."""
    import torch

    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (9, 0)
    number = int("".join(filter(str.isdecimal, target)) or 0)
    return number > 10 * major + minor, abs(10 * major + minor - number)

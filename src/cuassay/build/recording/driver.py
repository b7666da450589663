"""The driver's launches of raw kernels, shown to a recorder while there is one.

PTX comes from the same compiler, source and flags as the cubin that runs, with line
information. Tensor maps are kept in the PTX machine's own form beside the driver's, which tells
nobody what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from cuassay.build.cuda.driver import Launcher, Parameter, parameter_bytes
from cuassay.build.cuda.tile_maps import Encoded, machine_bytes
from cuassay.build.recording import now as recording_now
from cuassay.build.recording.recorder import SeenLaunch
from cuassay.errors import MissingToolError

if TYPE_CHECKING:
    import torch

    from ptxsan.syntax import Module

Dim3 = tuple[int, int, int]
_MAPS = 64


class RecordedDriver:
    """A launcher that hands everything on. `ptx` makes the text, `sources` belong to it."""

    def __init__(
        self, driver: Launcher, *, ptx: Callable[[], str], sources: Mapping[str, str]
    ) -> None:
        self._driver, self._ptx, self._sources = driver, ptx, sources
        self._names: dict[int, str] = {}
        self._maps: dict[bytes, bytes] = {}
        self._tensors: list[tuple[str, torch.Tensor]] = []

    def notice(self, values: Mapping[str, Any]) -> None:
        """Learn the values of a call by name, before its launches."""
        if recording_now.current is not None:
            self._tensors = [(k, v) for k, v in values.items() if hasattr(v, "untyped_storage")]

    def function(self, cubin: bytes, name: str) -> int:
        """Load the cubin (once) and return a handle of its kernel `name`."""
        handle = self._driver.function(cubin, name)
        self._names[handle] = name
        return handle

    def tensor_map(self, one: Encoded) -> bytes:
        """Return the 128 bytes of a tensor map parameter. Raises BuildError, DriverError."""
        raw = self._driver.tensor_map(one)
        if recording_now.current is not None:
            while len(self._maps) >= _MAPS:
                self._maps.pop(next(iter(self._maps)))
            self._maps[raw] = machine_bytes(one)
        return raw

    def launch(
        self,
        function: int,
        grid: Dim3,
        block: Dim3,
        *,
        shared_bytes: int,
        stream: int,
        arguments: Sequence[Parameter],
        cluster: Dim3 = (1, 1, 1),
    ) -> None:
        """Launch on `stream` (a CUstream handle); wait for the end where it is recorded."""
        go = partial(
            self._driver.launch, function, grid, block, shared_bytes=shared_bytes, stream=stream,
            arguments=arguments, cluster=cluster,
        )  # fmt: skip
        recorder, kernel = recording_now.current, self._names.get(function, "")
        if recorder is None:
            go()
            return

        def describe() -> SeenLaunch:
            ptx = self._ptx()
            raw = parameter_bytes(_module(ptx).functions[kernel], arguments)
            return SeenLaunch(
                ptx=ptx, kernel=kernel, grid=grid, block=block, cluster=cluster,
                shared_bytes=shared_bytes, tensors=self._tensors, sources=self._sources,
                arguments=[self._maps.get(one, one) for one in raw],
            )  # fmt: skip

        recorder.launch(kernel, describe, go)


@cache
def _module(ptx: str) -> Module:
    from ptxsan.errors import MachineError
    from ptxsan.parser import parse

    try:
        return parse(ptx)
    except MachineError as error:
        raise MissingToolError(f"its PTX is not understood: {error}") from None

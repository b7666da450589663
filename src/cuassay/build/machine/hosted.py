"""Launches that an extension's own host code makes, handed to this process's machine launcher."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cuassay.build.machine.host_memory import HostMemory
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.machine.streams import CallStreams
from cuassay.build.recording.ledger import LEDGER
from cuassay.build.unavailable import note
from cuassay.errors import LaunchError, MissingToolError
from cuassay.model.recording import RecordedLaunch
from ptxsan.host.journal import Place
from ptxsan.host.runtime import (
    NOT_SUPPORTED,
    SUCCESS,
    HostLaunch,
    Kept,
    Moved,
    Noted,
    Runtime,
    Texels,
)

if TYPE_CHECKING:
    from ptxsan.syntax import Module


@dataclass(slots=True)
class HostedLaunches:
    """The CUDA runtime of this process: launches run in the machine on the arena's memory.

    Memory that host code allocates itself lives over calls, as do tensors that it keeps.
    """

    launcher: MachineLauncher
    _runtime: Runtime | None = None
    _streams: CallStreams | None = None
    _refused: str = ""  # why CUDA refused a launch whose error nobody has looked at
    _own: HostMemory = field(default_factory=HostMemory)

    @staticmethod
    def connect(library: Path, launcher: MachineLauncher) -> HostedLaunches:
        """Return the runtime of the library, connected."""
        from cuassay.build import cuda_facade
        from cuassay.build.cuda_facade import MULTIPROCESSORS

        made = HostedLaunches(launcher)
        made._runtime = Runtime(library, made, multiprocessors=MULTIPROCESSORS)
        made._streams = CallStreams.of(made._runtime)
        cuda_facade.streams = made._streams
        return made

    def serve(self, launcher: MachineLauncher) -> None:
        """Hand launches to this launcher from now on, perhaps in the middle of a call.

        Code that builds its extension when it is first called does so: the build takes no time
        from the launches, and the call began before whatever the runtime has been asked.
        """
        self.launcher = launcher
        launcher.allow_time()
        if self._streams is not None and launcher.streams is not self._streams:
            self._streams.begin()
            launcher.streams = self._streams

    @property
    def runtime(self) -> Runtime:
        """The runtime."""
        assert self._runtime is not None
        return self._runtime

    def module(self, ptx: str) -> Module:
        """Return a parsed module. Raises MissingToolError for what the machine does not read."""
        return self.launcher.module(ptx)

    def launch(self, asked: HostLaunch) -> int:
        """Run a launch to its end. Raises LaunchFault, MissingToolError."""
        self.launcher.arena.bury(asked.arguments)
        recorder = self.launcher.recorder
        before = len(recorder.launches)
        self._own.provide(self.launcher.arena)
        LEDGER.launch(
            asked.kernel,
            lambda: self.launcher(
                asked.ptx, asked.kernel, grid=asked.grid, block=asked.block, cluster=asked.cluster,
                shared_bytes=asked.shared_bytes, arguments=asked.arguments,
            ),
        )  # fmt: skip
        if self._streams is not None:
            kept = len(recorder.launches) > before
            self._streams.launched(asked.how.stream, before if kept else None)
        return SUCCESS

    def refused(self, asked: HostLaunch, why: str) -> None:
        """Keep why CUDA refuses a launch; where launches are recorded and not run, it as well."""
        plain = RecordedLaunch(
            module=0, kernel=asked.kernel, grid=asked.grid, block=asked.block,
            cluster=asked.cluster, shared_bytes=asked.shared_bytes, arguments=(), regions=(),
            failure=why,
        )  # fmt: skip
        self.launcher.recorder.keep_refused(asked.ptx, plain)
        place = asked.how.place
        where = f" ({place.file}:{place.line})" if place.line else ""
        self._refused = f"{why}{where}"

    def allocated(self, base: int, nbytes: int, *, kept: Kept, stream: int) -> None:
        """Keep memory that the program was given."""
        self._own.add(base, nbytes, initialised=kept is not Kept.DEVICE)

    def freed(self, base: int, *, stream: int, how: str) -> None:
        """Forget memory; its addresses are nobody's."""
        self._own.drop(base)
        self.launcher.arena.drop(base)

    def moved(self, one: Moved) -> None:
        """Note what the host wrote, or copied."""
        assert self._runtime is not None
        for order in self._runtime.orders:
            order.operation(one.stream)
            if one.host_waits:
                order.host_waits_stream(one.stream)
        for row in range(one.rows):
            target = one.target + row * one.target_pitch
            source = None if one.source is None else one.source + row * one.source_pitch
            self._own.mark(self.launcher.arena, target, one.width, source=source)

    def waited(self, stream: int | None) -> None:
        """Nothing is kept from the host here."""

    def noted(self, what: Noted, error: int, text: str, place: Place) -> None:
        """Forget a refused launch that somebody asked about."""
        if what is Noted.ASKED:
            self._refused = ""

    def textured(self, texels: Texels) -> int:
        """Refuse: textures are not kept with a launch."""
        return NOT_SUPPORTED

    def untextured(self, handle: int) -> None:
        """Nothing is kept of textures."""

    def watch(self, module: types.ModuleType) -> types.ModuleType:
        """Make the module's functions tell the arena of the tensors that they are given."""
        for name, function in list(vars(module).items()):
            if isinstance(function, types.BuiltinFunctionType):
                setattr(module, name, self._watched(function))
        return module

    def _watched(self, function: Any) -> Any:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            for tensor in _tensors((*arguments, *options.values())):
                self.launcher.arena.add(tensor)
            with self.answered():
                return function(*arguments, **options)

        return call

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Raise what went wrong in the machine, or is left as CUDA's last error, after a call.

        On a GPU the next thing that torch launches finds that error.
        """
        self.runtime.forget()
        self._refused = ""
        try:
            yield
        finally:
            failure, error = self.runtime.failure, self.runtime.take_error()
            self.runtime.forget()
            if isinstance(failure, MissingToolError):
                note(failure)
            if failure is not None:
                raise failure
        if error != SUCCESS:
            why = f": {self._refused}" if self._refused else ""
            raise LaunchError(f"CUDA error: {self.runtime.error_text(error)}{why}")


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)

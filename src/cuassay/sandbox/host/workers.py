"""The processes of one candidate: one in use, one in a mode of its own, spares, and dying ones."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.steps import Mode
from cuassay.sandbox.host.builds import Builds
from cuassay.sandbox.host.handle import WorkerHandle
from cuassay.sandbox.host.nursery import Nursery, NurseryError
from cuassay.sandbox.limits import Limits

_SPARES = {"cpu": 1, "cuda": 3}
# What such a candidate imports: an operator of its own is traced, too (OPCHECK001).
_COMPILES = ("torch.compile", "torch._dynamo", "torch._inductor", "torch.library", "TORCH_LIBRARY")
# How a candidate makes streams of its own: by torch, the CUDA runtime or the driver.
_MAKES_STREAMS = re.compile(r"cuda\.(External)?Stream\b|StreamCreate|getStreamFromPool")
_Kind = tuple[Mode, bool]  # how a process is started: its mode, and whether with all queues
_RUNS_ALL: _Kind = (Mode.PLAIN, True)  # of the plain scenarios


class Workers:
    """Forks workers and ends them; they can write to `cache` alone, and are told what to build.

    A `nursery` of others stays open on close; one that a candidate has ended is replaced. `spares`
    are the workers kept ready, by default one on a CPU and three on a GPU.

    Where none is kept ready on a GPU, one process runs all plain scenarios, those of several
    streams too: a second context costs more than the queues. The first one has a single queue and
    is there sooner. With `lazy`, where workers start with the first scenario, it has all queues:
    one of several streams may follow.
    """

    def __init__(
        self,
        candidate: Candidate,
        builds: Builds,
        *,
        device: Device,
        limits: Limits,
        cache: Path,
        nursery: Nursery | None,
        spares: int | None,
        lazy: bool = False,
    ) -> None:
        self._builds, self._device = builds, device
        self._limits, self._cache = limits, cache
        self._texts = [source.text for source in candidate.sources]
        self._shared, self.nursery = nursery, nursery or Nursery(device)
        self._usual = self._special_kind = self.kind_of(Mode.PLAIN)
        self._current: WorkerHandle | None = None
        self._special: WorkerHandle | None = None  # the one in a mode of its own
        self._wanted = _SPARES[device.kind] if spares is None else spares
        if lazy and device.on_gpu and not self._wanted:
            self._usual = _RUNS_ALL
        self._spares: list[WorkerHandle] = []
        self._dying: list[WorkerHandle] = []
        self.started = 0
        self._prepare_nursery()

    @property
    def is_starting(self) -> bool:
        """Whether the worker in use has not said anything yet."""
        return self._current is not None and self._current.is_silent

    @property
    def are_there(self) -> bool:
        """Whether a worker is in use."""
        return self._current is not None or self._special is not None

    @property
    def are_dying(self) -> bool:
        """Whether workers that were killed are still to be buried."""
        return bool(self._dying)

    def is_special(self, worker: WorkerHandle) -> bool:
        """Whether a worker is the one that was started in an unusual way."""
        return worker is self._special

    def kind_of(self, mode: Mode, *, concurrent: bool = False) -> _Kind:
        """Return how a process is started: its mode, and whether it has all hardware queues.

        Without them the driver makes and ends a context in half the time (H100: 0.09 s a process
        instead of 0.19 with eight at once), and work may wait behind another stream's: nothing to
        one that uses a single stream, but a race between two could be hidden, and two kernels of
        which one waits for the other could hang.
        """
        if not self._device.on_gpu:
            return mode, False
        return mode, concurrent or any(_MAKES_STREAMS.search(text) for text in self._texts)

    def begin(self) -> None:
        """Start a worker, which begins to build, where there is none."""
        if self._current is None:
            self._current = self._spawn(self._usual)
            self._builds.post(self._current)

    def expect(self, mode: Mode) -> None:
        """Fork a worker of a mode that is asked for soon: it builds while another one works."""
        if self._special is None and mode is not Mode.PLAIN:
            self._special_kind = self.kind_of(mode)
            self._special = self._spawn(self._special_kind)
            self._builds.post(self._special)

    async def take(self, kind: _Kind, *, fresh: bool) -> WorkerHandle:
        """Return a worker of a kind: the one in use, a spare, or a new one.

        There is one of an unusual kind at a time. A `fresh` one has run no scenario.
        """
        current = self._current
        replaced = current is not None and fresh and current.scenarios > 0
        if self._device.on_gpu and not self._wanted and kind[0] is Mode.PLAIN:
            # The first process has one queue unless it is asked for more; the one that follows it
            # may be asked for more later.
            if replaced or kind == _RUNS_ALL:
                replaced = replaced or self._usual != _RUNS_ALL
                self._usual = _RUNS_ALL
            kind = self._usual
        if kind == self._usual:
            if current is not None and replaced:
                await self.discard(current)
            await self.bury(all_of=False)
            if self._current is None:
                self._current = self._spares.pop(0) if self._spares else self._spawn(kind)
            return self._current
        held = self._special
        if held is not None and (self._special_kind != kind or (fresh and held.scenarios)):
            await self.discard(held)
        if self._special is None:
            self._special, self._special_kind = self._spawn(kind), kind
        return self._special

    def prepare_spares(self) -> None:
        """Fork the next workers now, and let them build while this one works.

        Only after one build has ended: two compilers on the same sources help nobody. A CUDA
        context takes about half a second, so there several are kept ready.
        """
        while len(self._spares) < self._wanted:
            self._spares.append(self._spawn(self._usual))
        for spare in self._spares:
            if spare.build_nonce is None:
                self._builds.post(spare)

    async def discard(self, worker: WorkerHandle) -> None:
        """End a worker in use; the next scenario gets another.

        The end of a CUDA context, 70 ms, is not waited for: what a dying process may still do
        to the memory it shares, it can do to nobody but its own candidate.
        """
        if worker is self._special:
            self._special = None
        else:
            self._current = None
        self._dying.append(worker)
        with contextlib.suppress(NurseryError):
            worker.kill()
        if not self._device.on_gpu:
            await self.bury()

    async def bury(self, *, all_of: bool = True) -> None:
        """Close the handles of workers that were killed, waiting for those with `all_of`."""
        left = []
        for worker in self._dying:
            if not all_of and not worker.has_ended():
                left.append(worker)
                continue
            with contextlib.suppress(NurseryError, TimeoutError):
                await worker.end()
            worker.close()
        self._dying = left

    def kill(self) -> None:
        """Begin to end every worker: a CUDA context takes a while. `bury` waits for it."""
        self._dying += [*filter(None, [self._current, self._special]), *self._spares]
        self._current, self._special, self._spares = None, None, []
        for worker in self._dying:
            with contextlib.suppress(NurseryError):
                worker.kill()

    def replace_nursery(self) -> None:
        """Go on with a new nursery of our own: a candidate may have killed the zygote."""
        old = self.nursery
        self.nursery = Nursery(self._device, machine=old.machine)
        if old is not self._shared:
            old.close()
        self._prepare_nursery()

    def close_nursery(self) -> None:
        """Close the nursery, unless it is that of others."""
        if self.nursery is not self._shared:
            self.nursery.close()

    def _prepare_nursery(self) -> None:
        """Import the compiler once for all workers of a candidate that compiles itself."""
        if any(sign in text for text in self._texts for sign in _COMPILES):
            self.nursery.load_compiler()

    def _spawn(self, kind: _Kind) -> WorkerHandle:
        self.started += 1
        mode, all_queues = kind

        def fork() -> WorkerHandle:
            return WorkerHandle(
                self.nursery,
                cache=self._cache,
                limits=self._limits,
                mode=mode,
                queues=None if all_queues else 1,
            )

        try:
            return fork()
        except NurseryError:
            self.replace_nursery()
            return fork()

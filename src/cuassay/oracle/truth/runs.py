"""Run the reference: as written, lifted, with noise, each under the same random state."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.errors import ReferenceError_
from cuassay.model.problem import Scalar
from cuassay.oracle.compare.groups import unravel
from cuassay.oracle.lift.run import Hook, default_generators, lift, lift_together, run_as_written
from cuassay.oracle.truth.noise import StepHook

Value = Tensor | Scalar


def device_of(inputs: Sequence[Value]) -> torch.device:
    """Return the device of the first tensor, the CPU where there is none."""
    return next((v.device for v in inputs if isinstance(v, Tensor)), torch.device("cpu"))


def fingerprint(inputs: Sequence[Value]) -> int:
    """Return a checksum of up to 64 spread elements of every input (32 bits)."""
    said: list[tuple[bytes, int]] = []  # of each input: what it is, and how many bytes follow
    pieces: list[Tensor] = []
    for value in inputs:
        if not isinstance(value, Tensor):
            said.append((repr(value).encode(), 0))
            continue
        picked = _picked(value.detach())
        said.append((str(tuple(value.shape)).encode(), len(picked)))
        pieces.append(picked)
    on = device_of(inputs)
    words = bytes(torch.cat([piece.to(on) for piece in pieces]).tolist()) if pieces else b""
    found = 0
    for what, length in said:
        found = zlib.crc32(words[:length], zlib.crc32(what, found))
        words = words[length:]
    return found


def _picked(value: Tensor) -> Tensor:
    """Return the bytes of up to 64 spread elements, none of what cannot be looked at."""
    if value.dtype.itemsize == 1 and value.is_floating_point():
        value = value.contiguous().view(torch.uint8)  # codes: torch cannot index them
    count = value.numel()
    if not count or value.dtype.itemsize > 8 or value.is_complex():
        return torch.empty(0, dtype=torch.uint8, device=value.device)
    few = min(64, count)
    step = count // few
    if value.is_contiguous():  # no places have to reach a GPU, which is waited for
        picked = value.view(-1)[: step * few : step]
    else:
        places = [unravel(step * i, value.shape) for i in range(few)]
        columns = [torch.tensor(c, device=value.device) for c in zip(*places, strict=True)]
        picked = value[tuple(columns)]
    # A copy: one element of a strided tensor counts as contiguous and has no bytes to view.
    return picked.clone(memory_format=torch.contiguous_format).view(torch.uint8)


@dataclass(slots=True)
class FirstRuns:
    """The runs with which every truth of one case under one seed begins, once they are made.

    `written` is what the reference returns as it is, `plain` in float64, `narrow` in float32 with
    the jumps that were met on the way.
    """

    written: tuple[Tensor, ...] | None = None
    plain: tuple[Tensor, ...] | None = None
    narrow: tuple[tuple[Tensor, ...], StepHook] | None = None

    @property
    def nbytes(self) -> int:
        """The memory that is held."""
        narrow = self.narrow[0] if self.narrow else ()
        return sum(one.nbytes for one in (*(self.written or ()), *(self.plain or ()), *narrow))


class ReferenceRunner:
    """Runs one reference on one set of inputs and keeps the time of every run.

    What `first` holds is not run again. The global random state is set to `seed` before each run
    and restored afterwards, so that a reference that draws random numbers draws the same ones every
    time.
    """

    def __init__(
        self,
        fn: Callable[..., object],
        inputs: Sequence[Value],
        names: Sequence[str],
        seed: int,
        *,
        first: FirstRuns | None = None,
    ) -> None:
        self.fn, self.inputs, self.names = fn, inputs, names
        self._first = FirstRuns() if first is None else first
        # two cases under one seed must not share their noise: biases over seeds would add up
        self.seed = (seed ^ (fingerprint(inputs) << 20)) & (2**63 - 1)
        self.device = device_of(inputs)
        self.plain_s = 0.0
        self.started = time.perf_counter()

    def lifted(
        self, to: torch.dtype, hook: Hook | None = None, *, inputs: Sequence[Value] | None = None
    ) -> tuple[Tensor, ...]:
        """Return the outputs lifted to `to`. Raises LiftError and ReferenceError_."""
        given = self.inputs if inputs is None else inputs
        with self._same_random_state():
            return self._checked(lift(self.fn, given, to=to, hook=hook, names=self.names))

    def together(self, count: int, hook: Hook) -> tuple[Tensor, ...]:
        """Return the outputs of `count` float64 runs that are made together, each (count, ...).

        Raises LiftError, ReferenceError_ and NotTogether.
        """
        with self._same_random_state():
            found = lift_together(self.fn, self.inputs, count, hook=hook, names=self.names)
            return self._checked(found)

    def plain(self) -> tuple[Tensor, ...]:
        """Return the plain float64 lifted outputs; the time of this run is the unit of cost."""
        if self._first.plain is None:
            self._synchronise()
            start = time.perf_counter()
            self._first.plain = self.lifted(torch.float64)
            self._synchronise()
            self.plain_s = time.perf_counter() - start
        return self._first.plain

    def narrow(self) -> tuple[tuple[Tensor, ...], StepHook]:
        """Return the outputs lifted to float32, and what their run showed of jumps."""
        if self._first.narrow is None:
            steps = StepHook()
            self._first.narrow = (self.lifted(torch.float32, steps), steps)
        return self._first.narrow

    def written(self) -> tuple[Tensor, ...]:
        """Return the outputs of the reference as it is, of one run for all truths of the case."""
        if self._first.written is None:
            self._first.written = self.as_written()
        outputs = self._first.written
        if outputs and not any(isinstance(value, Tensor) for value in self.inputs):
            self.device = outputs[0].device  # no input says where such a reference computes
        return outputs

    def as_written(self, inputs: Sequence[Value] | None = None) -> tuple[Tensor, ...]:
        """Return the outputs of the reference as it is. Raises ReferenceError_."""
        with self._same_random_state():
            given = self.inputs if inputs is None else inputs
            return self._checked(run_as_written(self.fn, given, names=self.names))

    def cost(self) -> float:
        """Return the time since the start in plain float64 runs (0 where none was made)."""
        self._synchronise()
        return (time.perf_counter() - self.started) / self.plain_s if self.plain_s else 0.0

    def _checked(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if len(outputs) != len(self.names):
            raise ReferenceError_(
                f"the reference returned {len(outputs)} outputs, expected {len(self.names)} "
                f"({', '.join(self.names)}); make its return match the problem's outputs"
            )
        return outputs  # not detached again: that would lose the nominal dtype

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @contextmanager
    def _same_random_state(self) -> Iterator[None]:
        generators = default_generators(self.device)
        before = [generator.get_state() for generator in generators]
        try:
            for generator in generators:
                generator.manual_seed(self.seed)
            yield
        finally:
            for generator, state in zip(generators, before, strict=True):
                generator.set_state(state)


def upcast(inputs: Sequence[Value]) -> list[Value]:
    """Return inputs with 16-bit floats widened to float32."""
    return [
        value.float()
        if isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16)
        else value
        for value in inputs
    ]


def perturbed(inputs: Sequence[Value], *, relative: float, seed: int) -> list[Value]:
    """Return inputs with every float32 and float64 tensor off by `relative` * N(0, 1)."""
    generator = torch.Generator(device=device_of(inputs)).manual_seed(seed)
    moved: list[Value] = []
    for value in inputs:
        if isinstance(value, Tensor) and value.dtype in (torch.float32, torch.float64):
            xi = torch.randn(value.shape, generator=generator, device=value.device)
            value = value * (1.0 + relative * xi).to(value.dtype)
        moved.append(value)
    return moved

"""One rank's process: joins the world, makes the calls that it is told to make."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.model.scenario import Poison
from cuassay.model.steps import Issued, Moments
from cuassay.ranks import symmetric
from cuassay.ranks.collectives import Operation
from cuassay.ranks.group import Tensors, open_world
from cuassay.ranks.symmetric_ops import install_operators
from cuassay.sandbox import syscalls as kernel
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.guest.observe.call_trace import candidate_line
from cuassay.sandbox.guest.raised import raised
from cuassay.sandbox.guest.ranks.messages import (
    Arrives,
    Begin,
    Ends,
    Give,
    Gives,
    Go,
    Holds,
    Joined,
    Posts,
    Read,
    Sent,
    Take,
    Waits,
    pack,
    unpack,
)

_CYCLES_A_MS = 1.5e6  # of a GPU, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A rank's place: of `world` ranks in `groups` groups, whose members take turns in it.

    `store` is a file by which the ranks find each other. With `apart` each has a GPU of its own.
    """

    rank: int
    world: int
    groups: int
    store: str
    device: Device
    apart: bool

    @property
    def group(self) -> int:
        """The group that it belongs to."""
        return self.rank % self.groups

    @property
    def in_group(self) -> int:
        """Its rank in that group."""
        return self.rank // self.groups


def takes_group(function: Callable[..., object]) -> bool:
    """Whether a function of a rank has a parameter `group`."""
    try:
        return "group" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class _Moment:
    """A moment of the current stream of a GPU, which other streams can wait for; nothing on a CPU.

    A collective begins behind the work of the stream in which it is called, and who waits for it
    goes on behind it, in whichever stream.
    """

    def __init__(self, device: Device) -> None:
        self._event = torch.cuda.current_stream().record_event() if device.on_gpu else None

    def come_before(self) -> None:
        """Let the current stream wait for it."""
        if self._event is not None:
            torch.cuda.current_stream().wait_event(self._event)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """This rank's part of a collective that has begun."""

    given: Tensors
    into: Tensors
    begun: _Moment


class Member:
    """Serves where the ranks meet; the port of its process group."""

    def __init__(
        self, channel: Connection, place: Place, function: Callable[..., object], problem: Problem
    ) -> None:
        self._channel, self._place, self._problem = channel, place, problem
        self._function = function
        self._moments = Moments.LATE
        self._posted: dict[int, _Part] = {}
        self._filled: dict[int, _Moment] = {}
        self._count = 0
        self._options: dict[str, Any] = {}
        self._kernels_meet = False
        self._returned: list[list[tuple[str, object]]] = []
        self._inputs: list[list[Any]] = []

    def join(self) -> None:
        """Open the world, and the group of this rank where there are several."""
        place = self._place
        store = FileStore(place.store, place.world)
        if place.apart:
            dist.init_process_group("nccl", rank=place.rank, world_size=place.world, store=store)
            # NCCL connects with the first collective.
            dist.barrier(device_ids=[place.device.number])
        else:
            open_world(self, rank=place.rank, size=place.world, store=store)
            on_gpu = place.device.on_gpu
            folder = Path(place.store).parent
            met = (lambda: None) if on_gpu else lambda: self._let_kernels_meet(folder)
            shared = symmetric.install(folder, on_gpu=on_gpu, met=met)
            install_operators(shared, key="CUDA" if on_gpu else "CPU")
        if place.groups > 1:
            made = [
                dist.new_group(list(range(one, place.world, place.groups)))
                for one in range(place.groups)
            ]
            self._options["group"] = made[place.group]
        elif takes_group(self._function):
            self._options["group"] = dist.group.WORLD

    def _let_kernels_meet(self, folder: Path) -> None:
        """Let kernels that the PTX machine executes wait for what those of other ranks write."""
        from cuassay.build.machine import launch

        self._kernels_meet = True
        if launch.lock_of_ranks is None:
            made = os.open(folder / "kernels", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            launch.lock_of_ranks = made

    def serve(self) -> None:
        """Serve until the other side is gone."""
        while True:
            letter = self._channel.recv()
            match letter:
                case Begin():
                    self._channel.send(Ends(self._call(letter)))
                case Read():
                    held = Holds(
                        [[(name, pack(value)) for name, value in one] for one in self._returned],
                        [[pack(value) for value in one] for one in self._inputs],
                    )
                    self._channel.send(held)
                case _:
                    self._answer(letter)

    def post(self, operation: Operation, given: Tensors, into: Tensors) -> int:
        """Begin a collective."""
        self._count += 1
        begun = _Moment(self._place.device)
        self._posted[self._count] = _Part(given=given, into=into, begun=begun)
        now = [pack(one) for one in given] if self._moments is Moments.EARLY else None
        self._channel.send(Posts(self._count, operation, now))  # type: ignore[arg-type]
        if self._moments is not Moments.LATE:
            self._until(Go)
        return self._count

    def wait(self, number: int) -> None:
        """Wait until a collective has filled its tensors."""
        if number in self._posted:
            self._channel.send(Waits(number))
        while number in self._posted:
            self._answer(self._channel.recv())
        if number in self._filled:
            self._filled.pop(number).come_before()

    def _until(self, kind: type) -> None:
        while True:
            letter = self._channel.recv()
            if isinstance(letter, kind):
                return
            self._answer(letter)

    def _answer(self, letter: object) -> None:
        """Give or take tensors of a collective."""
        match letter:
            case Give(number=number):
                part = self._posted[number]
                part.begun.come_before()
                self._channel.send(Gives([pack(one) for one in part.given]))  # type: ignore[misc]
            case Take(number=number, tensors=tensors):
                part = self._posted.pop(number)
                part.begun.come_before()
                for target, sent in zip(part.into, tensors, strict=True):
                    value = unpack(sent)
                    assert isinstance(value, torch.Tensor)
                    with torch.no_grad():
                        target.detach().copy_(value.reshape(target.shape))
                self._filled[number] = _Moment(self._place.device)

    def _call(self, begin: Begin) -> Any:
        """Make the calls; return the record of what one raises."""
        self._moments = begin.moments
        self._returned, self._inputs, self._filled = [], [], {}
        stream: torch.cuda.Stream | None = None
        if begin.issued is not Issued.PLAINLY and self._place.device.on_gpu:
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        try:
            if stream is not None and begin.issued is Issued.BY_GRAPH:
                self._replay_on(stream, begin)
                return None
            for sent in begin.calls:
                values = self._on_device(sent, stream)
                if begin.refill and self._inputs:
                    values = [
                        _refilled(*pair) for pair in zip(self._inputs[0], values, strict=True)
                    ]
                self._channel.send(Arrives())
                self._until(Go)
                if stream is None:
                    self._inputs.append(values)
                    self._returned.append(self._called(values, begin.busy_ms))
                else:
                    self._call_on(stream, values, begin.busy_ms)
            if self._place.device.on_gpu:
                torch.cuda.synchronize()
        except SystemExit:
            raise
        except BaseException as error:
            return raised(0, error)
        return None

    def _call_on(self, stream: torch.cuda.Stream, values: list[Any], busy_ms: float) -> None:
        """Write the inputs, call and copy the results on a stream, behind other work on it."""
        given = [
            torch.full_like(one, torch.nan if one.is_floating_point() else 0)
            if isinstance(one, torch.Tensor)
            else one
            for one in values
        ]
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            self._inputs.append(given)
            returned = self._called(given, busy_ms, filled_with=values)
            self._returned.append([(name, _copied(value)) for name, value in returned])

    def _replay_on(self, stream: torch.cuda.Stream, begin: Begin) -> None:
        """Capture a call in a CUDA graph, and replay it with the inputs of each call."""
        held = self._on_device(begin.calls[0], stream)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            self._called([_copied(one) for one in held], 0.0)  # what a first call makes is kept
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Threads of NCCL ask events of other streams meanwhile.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            answer = self._function(*held, **self._options)
        captured = items.returned_items(answer, [spec.name for spec in self._problem.outputs])
        for sent in begin.calls:
            values = self._on_device(sent, stream)
            torch.cuda.synchronize()
            self._channel.send(Arrives())
            self._until(Go)
            with torch.cuda.stream(stream):
                self._be_busy(begin.busy_ms)
                self._inputs.append([_refilled(*pair) for pair in zip(held, values, strict=True)])
                graph.replay()
                self._returned.append([(name, _copied(value)) for name, value in captured])
        torch.cuda.synchronize()

    def _called(
        self, values: list[Any], busy_ms: float, *, filled_with: list[Any] | None = None
    ) -> list[tuple[str, object]]:
        """Call behind `busy_ms` of other work, and behind what fills the inputs after it."""
        names = [spec.name for spec in self._problem.outputs]
        # Free memory is filled first, which waits for all that the GPU does.
        with placement.poisoned_memory(Poison.NAN, self._place.device):
            self._be_busy(busy_ms)
            for held, value in zip(values, filled_with or values, strict=True):
                if held is not value:
                    _refilled(held, value)
            answer = self._function(*values, **self._options)
        # What lies in an input changes with it, as its caller knows.
        inputs = {_memory(value) for value in values if isinstance(value, torch.Tensor)}
        return [
            (name, value.clone() if _memory(value) in inputs else value)
            if isinstance(value, torch.Tensor)
            else (name, value)
            for name, value in items.returned_items(answer, names)
        ]

    def _be_busy(self, milliseconds: float) -> None:
        """Let a GPU do other work first; without one kernels that meet others' are slow."""
        if self._kernels_meet:
            from cuassay.build.machine import launch

            launch.is_late = milliseconds > 0
        elif self._place.device.on_gpu and milliseconds:
            torch.cuda._sleep(round(milliseconds * _CYCLES_A_MS))  # type: ignore[no-untyped-call]

    def _on_device(self, sent: Sequence[Sent], stream: torch.cuda.Stream | None) -> list[Any]:
        """Return what was sent; a `stream` other than the current one may read it later.

        Else its memory would hold the next call's inputs before the stream has read it.
        """
        found = []
        for one in sent:
            value: Any = unpack(one)
            if isinstance(value, torch.Tensor):
                value = value.to(self._place.device)
                if stream is not None:
                    value.record_stream(stream)
            found.append(value)
        return found


def _memory(tensor: torch.Tensor) -> int:
    """Return where the memory that a tensor lies in begins."""
    return tensor.untyped_storage().data_ptr()


def _copied(value: object) -> object:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _refilled(held: Any, value: Any) -> Any:
    if isinstance(held, torch.Tensor) and held.shape == value.shape:
        held.copy_(value)
        return held
    return value


def run(
    channel: Connection,
    asked: Connection,
    place: Place,
    build: Callable[[], Callable[..., object]],
    problem: Problem,
) -> None:
    """Be a rank until the other side is gone, once `build` has made its function; never returns."""
    kernel.die_with_parent(signal.SIGKILL)
    code = 1
    try:
        if not place.device.on_gpu:
            torch.set_num_threads(1)  # threads of an earlier parallel loop did not come along
        threading.Thread(target=_tell_line, args=(asked,), daemon=True).start()
        try:
            member = Member(channel, place, build(), problem)
            member.join()
        except Exception as error:
            channel.send(Ends(raised(0, error)))
            raise
        channel.send(Joined())
        member.serve()
    except (EOFError, BrokenPipeError):
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def _tell_line(asked: Connection) -> None:
    """Tell where the rank's own thread is, whenever somebody asks: in the candidate, if it is."""
    main = threading.main_thread().ident or 0
    try:
        while True:
            asked.recv()
            frame = sys._current_frames().get(main)
            file, line = candidate_line(frame)
            if frame and not file:  # while ranks start, it is torch that waits
                file, line = os.sep.join(Path(frame.f_code.co_filename).parts[-2:]), frame.f_lineno
            asked.send(f"{file}:{line}" if file else "")
    except (EOFError, OSError):
        return

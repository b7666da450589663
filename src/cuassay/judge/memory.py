"""The memory of one trial: what it plans to take, what it books, and what gives way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch

from cuassay.contract.accept import own_case
from cuassay.contract.memory import GIB, Room
from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.inputs.budget import booked_bytes, budget_for, planned_memory_gib, room_bytes
from cuassay.inputs.geometry import all_bytes, elements
from cuassay.judge.run.bookings import Booking
from cuassay.judge.run.memory import Cap, available_bytes, host_plan_gib, total_bytes
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference
    from cuassay.judge.domain import Knowledge

T = TypeVar("T")
_LIGHT = 4  # of the planned memory one part in four is taken by a scenario beside another
_FILLED = 4  # times its inputs and outputs a case takes in the judge at least


class Kept(Protocol):
    """What a trial keeps to save time: it is let go where memory is short."""

    def is_empty(self) -> bool:
        """Whether letting go frees nothing."""

    def let_go(self) -> None:
        """Forget everything."""


class Memory:
    """Plans, books and relieves the memory of one trial on one device.

    `gib` is the GPU memory that cases are planned for, None where it is not limited; `room` says
    what a case takes in each process.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        reference: LoadedReference,
        *,
        profile: Profile,
        device: Device,
        gpu_memory_gib: float | None,
    ) -> None:
        self._knowledge, self._device = knowledge, device
        self._on_gpu = device.on_gpu
        self.gib = planned_memory_gib(profile, gpu_memory_gib) if self._on_gpu else None
        limit_gib = self.gib if self._on_gpu else host_plan_gib(profile)
        work_limit = budget_for(profile, device=device).work
        self.room = Room(reference, device=device, limit_gib=limit_gib, work_limit=work_limit)
        self.cap = Cap(device, self.room.bytes)
        self.booking = Booking(None)
        self._kept: list[Kept] = []
        self._end_processes: Callable[[], bool] = lambda: False  # see `end_idle`
        self.needs_all = False  # a truth found no memory beside the trial's own idle processes

    def may_let_go(self, kept: Kept) -> None:
        """Learn of something that is kept to save time alone."""
        self._kept.append(kept)

    def book(self, booking: Booking) -> None:
        """Book what this trial plans to take of the GPU, and wait until that is free.

        Where memory is not limited that is what the largest workload needs.
        """
        self.booking = booking
        if not self._on_gpu:
            return
        if self.gib is not None:
            booking.take(booked_bytes(room_bytes(self.gib)))
            return
        problem = self._knowledge.problem
        workloads = [resolve(problem.axes, w.axes) for w in problem.workloads]
        largest = max(workloads, key=lambda sizes: elements(problem, sizes))
        case = own_case(problem, largest, seed=0, label="the largest workload")
        booking.take(booked_bytes(self.room.need(problem, case).total))

    def take_all_that_needs(self, case: Case) -> None:
        """Book a case that has no smaller one, whatever it needs.

        Raises CannotJudgeError where inputs and outputs alone are more than all the memory.
        """
        problem = self._knowledge.problem
        held, total = all_bytes(problem, case.axes), total_bytes(self._device)
        if held > total:
            raise CannotJudgeError(
                f"the smallest case that the reference accepts ({_listed(case)}) has inputs and "
                f"outputs of {held / GIB:,.0f} GiB, and this {self._where} has "
                f"{total / GIB:,.0f} GiB: correct the problem's axes, or give smaller workloads"
            )
        self.room.note(problem, case, None)
        needed = self.room.need(problem, case).total
        self.booking.take(booked_bytes(needed))
        self.cap.allow(needed)

    @property
    def is_large(self) -> bool:
        """Whether its smallest case needs more memory than was planned: one process at a time."""
        room = self.room.bytes
        return room is not None and self.booking.bytes > booked_bytes(room)

    @property
    def is_alone(self) -> bool:
        """Whether no other trial books the GPU now."""
        return self.booking.is_alone

    def end_idle_by(self, end_processes: Callable[[], bool]) -> None:
        """Learn how to end this trial's own processes while they are idle (see `end_idle`)."""
        self._end_processes = end_processes

    def end_idle(self) -> bool:
        """End this trial's idle processes where its cases fill a GPU; return whether any ended.

        What a kernel's process keeps for its next call is as much as its inputs, and more.
        """
        return self.is_large and self._end_processes()

    def holds(self, case: Case, *, truth: bool = True) -> bool:
        """Whether judge and workers have room for a case in the planned memory.

        Without `truth` where its answer is held against the reference as written.
        """
        return self.room.holds(self._knowledge.problem, case, truth=truth)

    def is_light(self, cases: Sequence[Case]) -> bool:
        """Whether a scenario leaves most of the planned memory to one at the same time.

        Inputs and answers of all its cases are held; truth is made of one after another. Where
        memory is not limited the plan is what the GPU has.
        """
        problem, room = self._knowledge.problem, self.room.bytes
        if room is None and self._on_gpu:
            room = total_bytes(self._device)
        if room is None:
            return True
        if any(case.state is not None for case in cases):
            return False
        share = _LIGHT * len(cases)
        try:
            needs = [
                self.room.need(problem, case)
                for case in cases
                if not self.room.is_small(problem, case, share=share, of_bytes=room)
            ]
        except CuassayError:
            return False
        taken = sum(need.kept for need in needs)
        taken += max((need.judge + need.worker - need.kept for need in needs), default=0)
        return share * taken <= room * len(needs)

    def capped(self, make: Callable[[], T]) -> T:
        """Return what `make` returns; where our own cap leaves it no memory, the cap gives way."""
        while True:
            try:
                made = make()
            except torch.OutOfMemoryError:
                if not self.relieve() and not self.end_idle():
                    raise
                self.needs_all = self.is_large
            else:
                self.cap.give_back()
                return made

    def relieve(self) -> bool:
        """Make room after memory ran out; return whether our own cap ended it, and gave way.

        First what is kept is let go. Only what does not fit then shows that the plan was wrong,
        and the cap gives way within limits: of a smallest case (`all`) no plan keeps a trial, and
        larger ones of ours are not worth what others need.
        """
        capped = self.cap.active
        if all(kept.is_empty() for kept in self._kept):
            capped = self.cap.widen()
        for kept in self._kept:
            kept.let_go()
        if self._on_gpu:
            torch.cuda.empty_cache()
        return capped

    def relieve_for(self, case: Case) -> bool:
        """Make room to try a case; only where the least there is fills the plan, beyond it."""
        if not all(kept.is_empty() for kept in self._kept):
            return self.relieve()
        room = self.room.bytes
        problem = self._knowledge.problem
        fills = room is None or _FILLED * all_bytes(problem, case.axes) > room
        return fills and self.relieve()

    @contextmanager
    def all(self) -> Iterator[None]:
        """Wait for all of the GPU's memory, and let the judge take what it needs of it."""
        self.relieve()
        self.booking.take(total_bytes(self._device))
        with self.cap.lifted():
            yield

    def too_large(self, case: Case) -> CannotJudgeError:
        """Return why a case that was given all the memory there was ran out of it."""
        needed = self.room.need(self._knowledge.problem, case).total
        has, free = total_bytes(self._device), available_bytes(self._device)
        return CannotJudgeError(
            f"the smallest case that the reference accepts ({_listed(case)}) needs about "
            f"{needed / GIB:,.0f} GiB, and this {self._where} has {has / GIB:,.0f} GiB, of which "
            f"{free / GIB:,.0f} are free: no verdict; judge it on a larger one, or give smaller "
            "workloads"
        )

    @property
    def _where(self) -> str:
        return "GPU" if self._on_gpu else "machine"


def _listed(case: Case) -> str:
    return ", ".join(f"{name}={size}" for name, size in case.axes.items())

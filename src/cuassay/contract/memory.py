"""How much memory and time a case takes in all processes of a trial, and smaller cases that fit.

Three processes hold a case at one time: the judge with its truth, the candidate's and the
reference's. What each takes follows from the shapes of the inputs and from one run of the
reference on fake tensors: nothing is allocated to know it. A candidate is taken to need what the
reference needs; how much it really takes is its own affair and is not limited here.

Time is counted, not measured: what the reference computes, in seconds by a `Pace`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from cuassay.contract.accept import own_case
from cuassay.dispatch_modes import WithoutMemory, on_meta_alone
from cuassay.hooks import EndlessRun, Observed, OperationLimit
from cuassay.inputs.budget import Pace, WorkLimit, room_bytes
from cuassay.inputs.case_inputs import case_inputs
from cuassay.inputs.geometry import all_bytes, elements, least_sizes, shrunk_sizes, workload_sizes
from cuassay.inputs.legal import torch_dtype
from cuassay.inputs.regimes import usual_scalar
from cuassay.inputs.scalars import may_be_sizes, sizes_given
from cuassay.model.axes import shape_of
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.problem import Problem, Scalar, TensorSpec
from cuassay.oracle.truth.memory import Live, bytes_needed, live_bytes, watched_run

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference

_COPIES = 2  # a process holds its inputs and what they travelled in
_COMPARED = 4 * 8  # bytes of an element of an answer while it is held against truth
_PER_ELEMENT = 256  # bytes in all processes, of an element of which truth is made
_DRAWS = 4  # noisy runs of a truth that memory has to hold
_FLOOR = 2  # axes stop here while that helps: faults of row 0 must show
GIB = 1 << 30
TRUTH_RUNS = 8  # of the reference in float64, for one truth: draws, and what trusted kernels err
_ALIKE = 0.1  # operations at two sizes that differ by no more are those of no loop
_MOST_OPERATIONS = 1 << 13  # of a generator, at sizes that are only counted
_MOST_FOLLOWED = 1 << 14  # operations that are followed before a long loop is taken to go on so
_DRAWN = 1 << 16  # elements that are drawn sooner than an operation without memory takes
_DRAWN_S = 4e-8  # of an element that a CPU draws, as it does for modules, whatever the device
_MADE = 0.25  # of a case's time that its inputs may take to be made, by an element's pace
_SHORT = 256  # operations of a run that costs little to follow
_FREE_S = 0.02  # a run of which so little is certain costs nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that one case takes at most, by process, beside what each process itself takes.

    `judge` makes truth and compares; `plain` is what it takes where no truth is made. `worker`
    is one process that calls the operator: the candidate's, and the reference's beside it. `kept`
    is what judge and candidate hold of it while they are at work on another case.
    """

    judge: int
    plain: int
    worker: int
    kept: int

    @property
    def total(self) -> int:
        """Judge, candidate and reference together."""
        return self.judge + 2 * self.worker

    @property
    def without_truth(self) -> int:
        """The same where answers are held against the reference as written."""
        return self.plain + 2 * self.worker


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """What the reference does at small sizes, from which an upper bound at others follows.

    `loops`: whether it may make more operations at others.
    """

    axes: Mapping[str, int]
    elements: int
    live: Live
    loops: bool = True

    def grown(self, problem: Problem, sizes: Mapping[str, int]) -> Live:
        """Return what it does at `sizes` at most, if loops and products grow with one axis each."""
        longest = self._longest(sizes)
        larger = max(1.0, elements(problem, sizes) / max(self.elements, 1))
        return dataclasses.replace(
            self.live,
            operations=math.ceil(self.live.operations * (longest if self.loops else 1.0)),
            elements=math.ceil(self.live.elements * larger * longest),
            multiply_adds=math.ceil(self.live.multiply_adds * larger * longest),
        )

    def _longest(self, sizes: Mapping[str, int]) -> float:
        """Return how many times as long the axis is that grew most; 1 where none did."""
        return max([1.0, *(size / max(self.axes.get(n, size), 1) for n, size in sizes.items())])

    def larger(self, problem: Problem, sizes: Mapping[str, int]) -> Live:
        """Return the same operations on as many more elements as inputs and outputs have."""
        larger = elements(problem, sizes) / max(self.elements, 1)
        return dataclasses.replace(
            self.live,
            elements=math.ceil(self.live.elements * larger),
            multiply_adds=math.ceil(self.live.multiply_adds * larger),
        )

    def extended(self, problem: Problem, sizes: Mapping[str, int], smaller: _Unit) -> Live:
        """Return what a loop does at `sizes`, by this run and a `smaller` one.

        What it holds follows a power of its elements; it makes as many operations more as its
        longest axis grew.
        """
        grown = elements(problem, sizes) / max(self.elements, 1)
        apart = 2 * smaller.elements <= self.elements

        def at(small: int, large: int) -> int:
            power = 1.0
            if apart and small > 0 and large > 0:
                base = self.elements / smaller.elements
                power = min(max(math.log(large / small) / math.log(base), 1.0), 2.0)
            return math.ceil(float(large * grown**power))

        small, large = smaller.live, self.live
        return dataclasses.replace(
            large,
            written=at(small.written, large.written),
            lifted=at(small.lifted, large.lifted),
            largest=at(small.largest, large.largest),
            reduced=at(small.reduced, large.reduced),
            elements=at(small.elements, large.elements),
            multiply_adds=at(small.multiply_adds, large.multiply_adds),
            operations=math.ceil(large.operations * self._longest(sizes)),
        )


def _seconds(live: Live, pace: Pace) -> float:
    if live.endless:
        return math.inf
    return (
        live.operations * pace.operation_s
        + live.elements * pace.element_s
        + live.multiply_adds * pace.multiply_add_s
    )


class _Followed:
    """What runs of one reference on tensors without memory showed, by device and arguments.

    The same in every trial of its problem: a judge that is kept has followed them already.
    """

    def __init__(self) -> None:
        self._without_memory = WithoutMemory()
        self._live: dict[str, Live] = {}

    def run(
        self, call: Callable[..., object], given: Sequence[Tensor | Scalar], *, device: Device
    ) -> Live:
        """Return what a run of `call` shows."""
        shown = [(v.shape, v.dtype) if isinstance(v, Tensor) else v for v in given]
        key = repr((device, shown))
        if key not in self._live:
            self._live[key] = live_bytes(call, given, device=device, without=self._without_memory)
        return self._live[key]


_BY_REFERENCE: WeakKeyDictionary[Callable[..., object], _Followed] = WeakKeyDictionary()


class Room:
    """The memory and the work that one trial plans with; `limit_gib` None: any memory.

    `conditions` says in words what had no room, once something had none.
    """

    def __init__(
        self,
        reference: LoadedReference,
        *,
        device: Device,
        limit_gib: float | None,
        work_limit: WorkLimit,
    ) -> None:
        self._reference, self._device = reference, device
        self.limit_gib, self._limit = limit_gib, work_limit
        self._unit: _Unit | None = None
        self._values: Callable[[Case], Sequence[Tensor | Scalar]] | None = None
        self._followed: dict[str, Live] = {}
        self._live: dict[str, Live] = {}
        self._runs = _BY_REFERENCE.setdefault(reference.call, _Followed())
        self._least: _Unit | None = None  # of the runs that were followed to their end
        self._most: _Unit | None = None
        self._operations = 0  # that all runs which were followed made
        self._conditions: dict[str, None] = {}

    @property
    def bytes(self) -> int | None:
        """Bytes for the tensors of one case; None where memory is not limited."""
        return None if self.limit_gib is None else room_bytes(self.limit_gib)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return what could not be judged as it is, a sentence each."""
        return tuple(self._conditions)

    def need(self, problem: Problem, case: Case) -> Need:
        """Return what a case takes, known after one run of the reference on fake tensors."""
        given = _inputs(problem, case)
        live = self._run(problem, case, given)
        shapes = [shape_of(spec.shape, case.axes) for spec in problem.outputs]
        inputs = sum(value.nbytes for value in given if isinstance(value, Tensor))
        answers = sum(math.prod(shape) for shape in shapes)
        returned = sum(
            math.prod(shape) * torch_dtype(spec.dtype).itemsize
            for spec, shape in zip(problem.outputs, shapes, strict=True)
        )
        written = max(live.written, returned)
        truth = bytes_needed(
            live, given, shapes, draws=_DRAWS, device=self._device, budget_bytes=self.bytes
        )
        held = _COPIES * (inputs + returned)
        return Need(
            judge=held + max(truth, _COMPARED * answers),
            plain=held + max(written, _COMPARED * answers),
            worker=_COPIES * inputs + written + returned,
            kept=held + _COPIES * inputs + returned,
        )

    def work(self, problem: Problem, sizes: Mapping[str, int]) -> int:
        """Return the elements and multiply-adds of one call at these sizes (see `Live`)."""
        return self._at(problem, sizes).work

    def learn_unit(
        self, problem: Problem, case: Case, values: Callable[[Case], Sequence[Tensor | Scalar]]
    ) -> None:
        """Count what the reference does on a case, from which plans tell what others cost at most.

        With `values`, the inputs of a case, where tensors without data cannot follow it. Raises
        what the reference raises then.
        """
        self._values = values
        live = self._run(problem, case, _inputs(problem, case))
        if not live.complete and not live.endless:
            live = watched_run(self._reference.call, values(case))
        before, loops = self._unit, True
        if before is not None and live.complete and before.live.complete:
            made = (before.live.operations, live.operations)
            alike = max(made) - min(made) <= _ALIKE * max(made)
            loops = before.axes == case.axes or not alike
        count = elements(problem, case.axes)
        self._unit = _Unit(axes=dict(case.axes), elements=count, live=live, loops=loops)

    def learn_from_workload(self, problem: Problem) -> None:
        """Count what the reference does at its smallest workload, where nothing is known yet.

        One with an empty axis, a cache that holds nothing yet, tells nothing of what a filled one
        costs: another comes first.
        """
        if self._unit is None and problem.workloads:
            listed = [workload_sizes(problem, workload) for workload in problem.workloads]
            sizes = min(listed, key=lambda one: (0 in one.values(), elements(problem, one)))
            live = self._at(problem, sizes)
            if live.complete or live.endless:
                count = elements(problem, sizes)
                self._unit = _Unit(axes=dict(sizes), elements=count, live=live)

    def run_s(self, problem: Problem, case: Case) -> float:
        """Return the seconds that one run of the reference in float64 takes, by count.

        0.0 where that is next to nothing, which needs no run without data to know; infinity where
        nobody sees its end.
        """
        limit, unit = self._limit, self._unit
        if unit is None or case.state is not None:
            return 0.0
        most = unit.grown(problem, case.axes)
        seconds = _seconds(most, limit.pace)
        if seconds <= _FREE_S:
            return 0.0
        if not unit.loops and seconds - most.operations * limit.pace.operation_s <= _FREE_S:
            return seconds
        live = self._run(problem, case, _inputs(problem, case))
        if not live.complete and not live.endless:
            live = self._with_data(problem, case)
        return _seconds(live, limit.pace)

    def truth_s(self, problem: Problem, case: Case) -> float:
        """Return the seconds that truth of a case takes, by count."""
        return TRUTH_RUNS * self.run_s(problem, case)

    @property
    def check_s(self) -> float:
        """Seconds, by count, that one check may take."""
        return self._limit.check_s

    def is_affordable(
        self,
        problem: Problem,
        sizes: Mapping[str, int],
        *,
        workload: bool = False,
        share: float | None = None,
    ) -> bool:
        """Whether what a call computes is within the limit, that of `workload`s or of our sizes.

        Where constant axes make every call large, it may be twice the least. With a `share` of what
        a kernel executed on a CPU may compute, small tensors are no exception: those of a
        convolution of many channels are small.
        """
        limit = self._limit
        most_s = limit.workload_s if workload else limit.case_s
        here = _bare(problem, sizes)
        least: Case | None = None
        if (seconds := self.truth_s(problem, here)) > most_s:
            least = _bare(problem, least_sizes(problem, sizes))
            if not seconds <= 2 * self.truth_s(problem, least):
                return False
        if workload or limit.machine is None:
            return True
        if share is None and elements(problem, sizes) <= limit.free_elements:
            return True
        if (work := self.work(problem, sizes)) <= (share or 1.0) * limit.machine:
            return True
        least = least or _bare(problem, least_sizes(problem, sizes))
        return work <= 2 * self.work(problem, least.axes)

    def _with_data(self, problem: Problem, case: Case) -> Live:
        """Return what the reference does at the sizes of a case, seen in a run with data.

        As much as on the smallest case, with more elements, where that has no room or fails.
        """
        assert self._unit is not None
        key = repr(sorted(case.axes.items()))
        if key not in self._followed:
            own = own_case(problem, case.axes, seed=1, label="")
            found = self._unit.larger(problem, case.axes)
            try:
                is_drawn = elements(problem, case.axes) <= _DRAWN
                hollow = None if is_drawn else self._on_hollow(problem, own)
                if hollow is not None:
                    found = hollow
                elif self._values is not None and (
                    self.bytes is None or self.need(problem, own).plain <= self.bytes
                ):
                    with Observed(OperationLimit(_MOST_OPERATIONS)):  # a generator may loop too
                        given = self._values(own)
                    found = watched_run(self._reference.call, given)
            except EndlessRun:
                found = dataclasses.replace(found, endless=True)
            except Exception:  # what it refuses is found out elsewhere
                pass
            self._followed[key] = found
        return self._followed[key]

    def _on_hollow(self, problem: Problem, own: Case) -> Live | None:
        """Return what a run on the problem's own inputs shows, made without memory.

        None where it does not come to its end. Lengths and offsets that follow from sizes alone
        have their values then, and no weights are drawn.
        """

        def made() -> Mapping[str, Tensor | Scalar]:
            with Observed(OperationLimit(_MOST_OPERATIONS)):
                return case_inputs(problem, own, device=self._device, reference=self._reference)

        try:
            given = on_meta_alone(made)
        except Exception:  # a generator may need data
            return None
        live = live_bytes(self._reference.call, list(given.values()), device=self._device)
        return live if live.complete or live.endless else None

    def _at(self, problem: Problem, sizes: Mapping[str, int]) -> Live:
        case = _bare(problem, sizes)
        return self._run(problem, case, _inputs(problem, case))

    def _run(self, problem: Problem, case: Case, given: Sequence[Tensor | Scalar]) -> Live:
        key = repr((sorted(case.axes.items()), [v for v in given if not hasattr(v, "shape")]))
        if key in self._live:
            return self._live[key]
        least, most = self._least, self._most
        # An operation without memory takes a millisecond where torch has written it in Python: a
        # long loop at each planned size would take longer than the trial, so that enough runs of
        # it tell what the others do.
        many = self._operations > _MOST_FOLLOWED
        if many and least is not None and most is not None and most.live.operations > _SHORT:
            live = self._live[key] = most.extended(problem, case.axes, least)
            return live
        live = self._live[key] = self._runs.run(self._reference.call, given, device=self._device)
        self._operations += live.operations
        if live.complete:
            unit = _Unit(axes=dict(case.axes), elements=elements(problem, case.axes), live=live)
            if least is None or unit.elements < least.elements:
                self._least = unit
            if most is None or unit.elements >= most.elements:
                self._most = unit
        return live

    def is_small(
        self, problem: Problem, case: Case, *, share: int = 1, of_bytes: int | None = None
    ) -> bool:
        """Whether a case takes less than one part in `share`, which needs no run to know.

        Of the planned memory, unless `of_bytes` are given.

        A reference is taken to hold no more than all its inputs and outputs, each as often as
        the longest axis has elements: the scores of attention are such. An integer argument that
        follows no axis may ask for any size.
        """
        room = self.bytes if of_bytes is None else of_bytes
        if room is None:
            return True
        if may_be_sizes(problem):
            return False
        longest = max(case.axes.values(), default=1)
        return share * elements(problem, case.axes) * longest * _PER_ELEMENT <= room

    def has_memory(self, problem: Problem, case: Case, *, truth: bool = True) -> bool:
        """Whether a case fits into the planned memory, however long it takes; see `holds`."""
        if self.bytes is None or self.is_small(problem, case):
            return True
        need = self.need(problem, case)
        return (need.total if truth else need.without_truth) <= self.bytes

    def holds(self, problem: Problem, case: Case, *, truth: bool = True) -> bool:
        """Whether a case has room; without `truth` where no truth of it is made."""
        if not self.has_memory(problem, case, truth=truth):
            return False
        if truth:
            return self.is_affordable(problem, case.axes, workload=case.benchmark)
        return self.run_s(problem, case) <= self.check_s

    def holds_inputs(self, problem: Problem, case: Case) -> bool:
        """Whether the problem's own inputs of a case can be made, whatever a run on them takes."""
        element_s = max(self._limit.pace.element_s, _DRAWN_S if problem.built else 0.0)
        made_s = elements(problem, case.axes) * element_s
        if made_s > _MADE * self._limit.case_s:
            return False
        return self.bytes is None or _COPIES * all_bytes(problem, case.axes) <= self.bytes

    def smaller(
        self,
        problem: Problem,
        case: Case,
        *,
        keep: Collection[str] = (),
        settle: Callable[[Case], Case | None],
    ) -> Case | None:
        """Return the case with axes halved until it has room, as the reference accepts it.

        The longest axis that may vary goes first; axes in `keep` stay. Axes go below 2 only
        where nothing else helps. The smallest may still have no room; None where the reference
        refuses it.
        """

        def made(sizes: Mapping[str, int]) -> Case:
            return dataclasses.replace(case, axes=dict(sizes))

        def fits(sizes: Mapping[str, int]) -> bool:
            smaller = made(sizes)
            return self.holds_inputs(problem, smaller) and self.holds(problem, smaller)

        found, sizes = None, dict(case.axes)
        for floor in (_FLOOR, 1):
            sizes = shrunk_sizes(problem, sizes, small_enough=fits, keep=keep, floor=floor)
            settled = settle(made(sizes))
            found = settled or found
            if settled is not None and self.holds(problem, settled):
                break
        if found is None or dict(found.axes) == dict(case.axes):
            return None
        return dataclasses.replace(
            found, label=f"{case.label}, smaller for {self._lacks(problem, case)}"
        )

    def _lacks(self, problem: Problem, case: Case) -> Literal["memory", "time"]:
        if self.bytes is not None and self.need(problem, case).total > self.bytes:
            return "memory"
        affordable = self.is_affordable(problem, case.axes, workload=case.benchmark)
        return "memory" if affordable else "time"

    def note(self, problem: Problem, case: Case, instead: Case | None) -> None:
        """Remember a case of the problem's own that had no room, and what was judged instead."""
        if self._lacks(problem, case) == "time":
            if instead is not None:
                seconds = self.truth_s(problem, case)
                known = math.isfinite(seconds)
                takes = f"about {seconds:.0f} s" if known else "more operations than are counted"
                self._conditions.setdefault(
                    f"time: judged at {_sizes(problem, instead)} instead of the workload's "
                    f"{_sizes(problem, case)}, of which truth takes {takes}; a larger profile "
                    "allows more"
                )
            return
        need = self.need(problem, case).total / GIB
        wanted = math.ceil(need * 8.0 / 7.0 + 1.5)
        limit, sizes = self.limit_gib, _sizes(problem, case)
        gpu = self._device.on_gpu
        kind, wish = ("GPU memory", f" (--gpu-memory {wanted}GiB)") if gpu else ("memory", "")
        if instead is None:
            how = "trials beside it waited" if gpu else "judge it alone"
            text = (
                f"memory: the smallest case that the reference accepts ({sizes}) needs about "
                f"{need:.1f} GiB of {kind}, more than the planned {limit:g}; {how}"
            )
        else:
            text = (
                f"memory: judged at {_sizes(problem, instead)} instead of the workload's {sizes}, "
                f"which needs about {need:.1f} GiB of {kind}; planned are {limit:g}{wish}"
            )
        self._conditions.setdefault(text)


def _bare(problem: Problem, sizes: Mapping[str, int]) -> Case:
    return Case(label="", axes=dict(sizes), scalars=problem.usual_state, seed=0)


def _sizes(problem: Problem, case: Case) -> str:
    listed = [f"{axis.name}={case.axes[axis.name]}" for axis in problem.var_axes()]
    return ", ".join(listed) or "its only shape"


def _inputs(problem: Problem, case: Case) -> list[Tensor | Scalar]:
    """Return what the reference is called with: tensors without memory, usual scalars."""
    workload = next((w for w in problem.workloads if w.id == case.workload), None)
    workload = workload or next(iter(problem.workloads), None)
    found: list[Tensor | Scalar] = []
    sizes = sizes_given(problem, case.axes)
    for spec in problem.inputs:
        if spec.name in sizes:
            found.append(sizes[spec.name])
        elif isinstance(spec, TensorSpec):
            shape = shape_of(spec.shape, case.axes)
            found.append(torch.empty(shape, dtype=torch_dtype(spec.dtype), device="meta"))
        elif spec.name in case.scalars:
            found.append(case.scalars[spec.name])
        else:
            found.append(usual_scalar(spec, workload, seed=0))
    return found

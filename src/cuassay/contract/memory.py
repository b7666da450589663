"""How much memory a case takes in all processes of a trial, and smaller cases that fit.

Three processes hold a case at one time: the judge with its truth, the candidate's and the
reference's. What each takes follows from the shapes of the inputs and from one run of the
reference on fake tensors: nothing is allocated to know it. A candidate is taken to need what the
reference needs; how much it really takes is its own affair and is not limited here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from cuassay.dispatch_modes import WithoutMemory
from cuassay.inputs.budget import WorkLimit, room_bytes
from cuassay.inputs.geometry import elements, least_sizes, shrunk_sizes
from cuassay.inputs.legal import torch_dtype
from cuassay.inputs.regimes import usual_scalar
from cuassay.inputs.scalars import may_be_sizes, sizes_given
from cuassay.model.axes import shape_of
from cuassay.model.case import Case
from cuassay.model.problem import Problem, Scalar, TensorSpec
from cuassay.oracle.truth.memory import Live, bytes_needed, live_bytes

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference

_COPIES = 2  # a process holds its inputs and what they travelled in
_COMPARED = 4 * 8  # bytes of an element of an answer while it is held against truth
_PER_ELEMENT = 256  # bytes in all processes, of an element of which truth is made
_DRAWS = 4  # noisy runs of a truth that memory has to hold
_FLOOR = 2  # axes stop here while that helps: faults of row 0 must show
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that one case takes at most, by process, beside what each process itself takes.

    `judge` makes truth and compares; `plain` is what it takes where no truth is made. `worker`
    is one process that calls the operator: the candidate's, and the reference's beside it.
    """

    judge: int
    plain: int
    worker: int

    @property
    def total(self) -> int:
        """Judge, candidate and reference together."""
        return self.judge + 2 * self.worker

    @property
    def without_truth(self) -> int:
        """The same where answers are held against the reference as written."""
        return self.plain + 2 * self.worker


class Room:
    """The memory that one trial plans with, a GPU's or the host's; `limit_gib` None: any.

    `work_limit` bounds what a call computes of which truth is made.
    `conditions` says in words what had no room, once something had none.
    """

    def __init__(
        self,
        reference: LoadedReference,
        *,
        device: str,
        limit_gib: float | None,
        work_limit: WorkLimit | None = None,
    ) -> None:
        self._reference, self._device = reference, device
        self.limit_gib, self._work_limit = limit_gib, work_limit
        self._live: dict[str, Live] = {}
        self._without_memory = WithoutMemory()
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
        inputs = sum(value.nbytes for value in given if isinstance(value, torch.Tensor))
        answers = sum(math.prod(shape) for shape in shapes)
        returned = sum(
            math.prod(shape) * torch_dtype(spec.dtype).itemsize
            for spec, shape in zip(problem.outputs, shapes, strict=True)
        )
        written = max(live.written, returned)
        truth = bytes_needed(live, given, shapes, draws=_DRAWS, budget_bytes=self.bytes)
        held = _COPIES * (inputs + returned)
        return Need(
            judge=held + max(truth, _COMPARED * answers),
            plain=held + max(written, _COMPARED * answers),
            worker=_COPIES * inputs + written + returned,
        )

    def work(self, problem: Problem, sizes: Mapping[str, int]) -> int:
        """Return the elements and multiply-adds of one call at these sizes (see `Live`)."""
        case = Case(label="", axes=dict(sizes), scalars=problem.usual_state, seed=0)
        return self._work(problem, case)

    def is_affordable(
        self, problem: Problem, sizes: Mapping[str, int], *, workload: bool = False
    ) -> bool:
        """Whether what a call computes is within the limit, that of `workload`s or of our sizes.

        Where constant axes make every call large, it may be twice the least.
        """
        limit = self._work_limit
        if limit is None or elements(problem, sizes) <= limit.free_elements:
            return True
        most, work = limit.workloads if workload else limit.ours, self.work(problem, sizes)
        if work <= most:
            return True
        return work <= 2 * self.work(problem, least_sizes(problem, sizes))

    def _work(self, problem: Problem, case: Case) -> int:
        return self._run(problem, case, _inputs(problem, case)).work

    def _run(self, problem: Problem, case: Case, given: Sequence[torch.Tensor | Scalar]) -> Live:
        key = repr((sorted(case.axes.items()), [v for v in given if not hasattr(v, "shape")]))
        if key not in self._live:
            self._live[key] = live_bytes(
                self._reference.call, given, device=self._device, without=self._without_memory
            )
        return self._live[key]

    def is_small(self, problem: Problem, case: Case, *, share: int = 1) -> bool:
        """Whether a case takes less than one part in `share`, which needs no run to know.

        A reference is taken to hold no more than all its inputs and outputs, each as often as
        the longest axis has elements: the scores of attention are such. An integer argument that
        follows no axis may ask for any size.
        """
        if self.bytes is None:
            return True
        if may_be_sizes(problem):
            return False
        longest = max(case.axes.values(), default=1)
        return share * elements(problem, case.axes) * longest * _PER_ELEMENT <= self.bytes

    def holds(self, problem: Problem, case: Case, *, truth: bool = True) -> bool:
        """Whether a case has room; without `truth` where no truth of it is made."""
        if self.bytes is None or self.is_small(problem, case):
            return True
        need = self.need(problem, case)
        if (need.total if truth else need.without_truth) > self.bytes:
            return False
        return not truth or self.is_affordable(problem, case.axes, workload=case.benchmark)

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
            return self.holds(problem, made(sizes))

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
                self._conditions.setdefault(
                    f"time: judged at {_sizes(problem, instead)} instead of the workload's "
                    f"{_sizes(problem, case)}, of which one call makes "
                    f"{self._work(problem, case):.1e} multiply-adds; a larger profile allows more"
                )
            return
        need = self.need(problem, case).total / GIB
        wanted = math.ceil(need * 8.0 / 7.0 + 1.5)
        limit, sizes = self.limit_gib, _sizes(problem, case)
        gpu = self._device.startswith("cuda")
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


def _sizes(problem: Problem, case: Case) -> str:
    listed = [f"{axis.name}={case.axes[axis.name]}" for axis in problem.var_axes()]
    return ", ".join(listed) or "its only shape"


def _inputs(problem: Problem, case: Case) -> list[torch.Tensor | Scalar]:
    """Return what the reference is called with: tensors without memory, usual scalars."""
    workload = next((w for w in problem.workloads if w.id == case.workload), None)
    workload = workload or next(iter(problem.workloads), None)
    found: list[torch.Tensor | Scalar] = []
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

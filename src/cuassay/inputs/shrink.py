"""Make a failing case as small and plain as it can be while it still fails.

Greedy and deterministic: sizes by bisection between the least legal one and the failing
one and by remainders of powers of two, fills to the plainest that still fails, scalars to
their usual values, again until nothing changes; then single elements of small tensors. For a
failure that is monotone in each size, or depends on it modulo a power of two, the result is
the exact minimum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuassay.inputs.discrete import is_flag, with_ones
from cuassay.inputs.elements import has_magnitude, peak, simplest_elements
from cuassay.inputs.fills import family, kinds_for
from cuassay.inputs.geometry import least, legal, tensor_inputs, try_sizes
from cuassay.inputs.scalars import default_scalar
from cuassay.model import serial
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Opaque
from cuassay.model.problem import Problem, Scalar, ScalarSpec, TensorSpec, VarAxis

if TYPE_CHECKING:
    import torch

    MakeInputs = Callable[[Case], Mapping[str, torch.Tensor | Scalar]]

_PLAIN = {
    "real": ("zeros", "ones", "small_integers", "normal"),
    "index": ("single_hot", "arange", "uniform"),
    "lengths": ("full", "ones", "uniform"),
    "offsets": ("even", "uniform"),
    "mask": ("ones", "uniform"),
    "integers": ("zeros", "ones", "uniform"),
    "packed": ("zeros", "ones", "uniform"),
    "choice": ("zeros", "ones", "uniform"),
}
_FLAG = ("ones", "zeros", "uniform")  # of a mask of rows "zeros" attends to nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The smallest failing case found, how many times the predicate ran, and why it ended."""

    case: Case
    tries: int
    exhausted: bool  # True: the budget ended before nothing more could be removed


@dataclass(slots=True, kw_only=True)
class _Search:
    problem: Problem
    still_fails: Callable[[Case], bool]
    max_tries: int
    best: Case
    inputs: MakeInputs | None = None
    tries: int = 0
    known: dict[str, bool] = field(default_factory=dict)

    @property
    def exhausted(self) -> bool:
        return self.tries >= self.max_tries

    def accept(self, case: Case) -> bool:
        """Adopt `case` if it still fails; a case seen before costs no try."""
        if case == self.best:
            return True
        key = serial.dumps(dataclasses.replace(case, label=""))
        if key not in self.known:
            if self.exhausted:
                return False
            self.tries += 1
            self.known[key] = self.still_fails(case)
        if self.known[key]:
            self.best = case
        return self.known[key]


def shrink(
    case: Case,
    still_fails: Callable[[Case], bool],
    problem: Problem,
    *,
    max_tries: int = 60,
    inputs: MakeInputs | None = None,
) -> Shrunk:
    """Return a smaller case that still fails, `case` itself where none does, and the tries.

    `inputs` makes the tensors of a case: with it, single elements of small tensors are
    shrunk as well.
    """
    search = _Search(
        problem=problem, still_fails=still_fails, max_tries=max_tries, best=case, inputs=inputs
    )
    if not _own_fills(search):
        return Shrunk(case=case, tries=search.tries, exhausted=search.exhausted)
    changes = {
        axis.name: min(least(axis), search.best.axes[axis.name])
        for axis in search.problem.var_axes()
    }
    _accept_sizes(search, changes)
    before = None
    while before != search.best and not search.exhausted:
        before = search.best
        # The longest axes first: they make every later try cheaper
        for axis in sorted(search.problem.var_axes(), key=lambda axis: -before.axes[axis.name]):
            # Try the least size, bisect, then try the remainders that bisection jumps over
            low = least(axis)
            if search.best.axes[axis.name] <= low or _accept_sizes(search, {axis.name: low}):
                continue
            _bisect(search, axis)
            while not search.exhausted and _least_remainder(search, axis):
                _bisect(search, axis)
        for spec in tensor_inputs(problem):
            _plain_fill(search, spec)
        for scalar in problem.inputs:
            if isinstance(scalar, ScalarSpec):
                usual = default_scalar(scalar)
                if search.best.scalars.get(scalar.name, usual) == usual:
                    continue
                scalars = {**search.best.scalars, scalar.name: usual}
                search.accept(dataclasses.replace(search.best, scalars=scalars))
    if inputs is not None:
        for spec in tensor_inputs(problem):
            simplest_elements(search.best, spec, accept=search.accept, inputs=inputs)
    return Shrunk(case=search.best, tries=search.tries, exhausted=search.exhausted)


def _own_fills(search: _Search) -> bool:
    """Replace a benchmark's or generator's inputs by plain fills; False: nothing may change.

    A benchmark case belongs to its workload, so it shrinks only if it fails without it.
    """
    case = search.best
    opaque = any(isinstance(s.domain, Opaque) for s in tensor_inputs(search.problem))
    if case.generator and not opaque:
        plain = dataclasses.replace(case, generator=False, benchmark=False, workload=None)
        if search.accept(plain):
            return True
    if not case.benchmark:
        return True
    return search.accept(dataclasses.replace(case, benchmark=False, workload=None))


def _bisect(search: _Search, axis: VarAxis) -> None:
    """Bisect between the least size and the failing one, in steps of `multiple_of`."""
    step, low, high = axis.multiple_of, least(axis), search.best.axes[axis.name]
    while high - low > step and not search.exhausted:
        middle = low + max((high - low) // (2 * step), 1) * step
        if middle < high and _accept_sizes(search, {axis.name: middle}):
            high = middle
        else:
            low = middle


def _least_remainder(search: _Search, axis: VarAxis) -> bool:
    """Adopt the smallest size with the same remainder modulo a power of two that fails.

    A fault of partial tiles depends on the remainder: from 1984 bisection finds nothing
    smaller where only sizes of 64 modulo 128 fail.
    """
    low, size, period = least(axis), search.best.axes[axis.name], 2 * axis.multiple_of
    tried = {low, size}
    while period < size and not search.exhausted:
        smaller = low + (size - low) % period
        if smaller not in tried and _accept_sizes(search, {axis.name: smaller}):
            return True
        tried.add(smaller)
        period *= 2
    return False


def _accept_sizes(search: _Search, changes: dict[str, int]) -> bool:
    sizes = try_sizes(search.problem, search.best.axes, changes)
    if sizes is None or (search.best.in_domain and not legal(search.problem, sizes)):
        return False
    return search.accept(dataclasses.replace(search.best, axes=sizes, workload=None))


def _plain_fill(search: _Search, spec: TensorSpec) -> None:
    """Try fills from the plainest up to the present one."""
    present = search.best.fills.get(spec.name)
    if isinstance(spec.domain, Opaque):
        return
    for fill in _plainer(search, spec):
        if present == fill or fill.kind not in kinds_for(spec):
            return
        fills = {**search.best.fills, spec.name: fill}
        if search.accept(dataclasses.replace(search.best, fills=fills)):
            return


def _plainer(search: _Search, spec: TensorSpec) -> Iterator[Fill]:
    """Yield fills, the plainest first; among them the present largest value everywhere.

    That one keeps what only a magnitude shows, and then sizes can shrink to one element.
    """
    present = search.best.fills.get(spec.name)
    kinds = _PLAIN[family(spec)]
    if family(spec) == "mask" and is_flag(with_ones(search.problem, spec)):
        kinds = _FLAG
    for kind in kinds:
        yield Fill(kind=kind)
        if kind != "ones" or search.inputs is None or not has_magnitude(spec):
            continue
        if present is not None and present.kind == "constant":
            yield present
        value = peak(search.inputs(search.best)[spec.name])
        for told in dict.fromkeys((float(f"{value:.1g}"), value)) if value else ():
            yield Fill(kind="constant", parameters={"value": told})

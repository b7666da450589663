"""The cases that a relation ties together: a base, and transforms of it that replay alone."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence

from cuassay.errors import ProblemError
from cuassay.inputs.geometry import elements, legal, tensor_inputs, try_sizes
from cuassay.model.case import GENERATED, Case, Fill, FillValue
from cuassay.model.domain import Positive, Real, domain_axes
from cuassay.model.problem import ExprAxis, Problem, TensorSpec, VarAxis
from cuassay.model.relation import (
    AdditiveOver,
    Conserves,
    DuplicatesAgree,
    Homogeneous,
    LinearIn,
    PermutationEquivariant,
    PrefixStable,
    Relation,
    RowsIndependent,
    RowsSumToOne,
    ShiftInvariant,
)

_NAME = re.compile(r"[A-Za-z_]\w*")
_SHIFT = 96.0  # beyond the 88 at which exp overflows in float32, exact in bfloat16
_LOUD = 5.0
_COPIES = 4  # how much larger than the base the largest batch is


def members(
    problem: Problem, relation: Relation, base: Case, *, limit: int, promised: bool = True
) -> tuple[Case, ...]:
    """Return the cases of a relation, the base (perhaps adjusted) first; () where none exist.

    No member has more than `limit` elements unless the base has. A member whose size no
    caller was promised is left out, unless those of independent slices are asked for without.
    """
    match relation:
        case RowsIndependent(axis=axis):
            # Base, another order, one slice alone, a smaller batch, a larger one made of copies
            size = base.axes[axis]
            if size < 2:
                return ()
            order = _order(base, size)
            wanted = {
                "in another order": order,
                "one slice alone": order[-1:],
                "a smaller batch": order[: max(size // 2, 2)],
                "a larger batch of copies": tuple(order * _COPIES),
            }
            return _takes(problem, base, axis, wanted, limit=limit, promised=promised)
        case PermutationEquivariant(axis=axis):
            size = base.axes[axis]
            backwards = tuple(reversed(range(size)))
            wanted = {"in another order": _order(base, size), "in reverse": backwards}
            return _takes(problem, base, axis, wanted) if size > 1 else ()
        case DuplicatesAgree(axis=axis):
            size = base.axes[axis]
            few = tuple(i % max(size // 3, 1) for i in range(size))
            found = _takes(problem, base, axis, {"with copies": few})
            return found[1:] if size > 1 else ()
        case PrefixStable(axis=axis):
            size = base.axes[axis]
            lengths = sorted({size - 1, size // 2, 1}, reverse=True)
            wanted = {f"the first {k}": tuple(range(k)) for k in lengths if 0 < k < size}
            return _takes(problem, base, axis, wanted)
        case AdditiveOver(axis=axis):
            return _parts(problem, base, axis)
        case LinearIn(input=name):

            def part(number: int, label: str) -> Case:
                seed = base.seed % 2**32
                return _changed(problem, base, name, label, part=number, part_seed=seed)

            return (
                _named(base, "the whole"),
                part(0, f"half of {name}"),
                part(1, f"the other half of {name}"),
                _changed(problem, base, name, "doubled", scale_by=2.0),
            )
        case Homogeneous(input=name):
            factors = {"doubled": 2.0, "an eighth": 0.125}
            made = (_changed(problem, base, name, what, scale_by=c) for what, c in factors.items())
            return (_named(base, "as it is"), *made)
        case ShiftInvariant(input=name, axis=axis):
            spec = problem.input(name)
            assert isinstance(spec, TensorSpec)
            # Integers plus an integer: exact as long as both have few enough bits.
            amount = min(_SHIFT, 2.0 ** (spec.dtype.float_format.precision - 2))
            whole = Fill(kind="small_integers", parameters={"limit": 3})
            plain = dataclasses.replace(base, fills={**base.fills, name: whole})
            along = spec.shape.index(axis)
            return (
                _named(plain, "as it is"),
                _changed(problem, plain, name, f"{amount:+g}", shift=amount, shift_axis=along),
                _changed(problem, plain, name, f"{-amount:+g}", shift=-amount, shift_axis=along),
            )
        case RowsSumToOne():
            return (_named(base, "plain"), _named(_louder(problem, base), "large"))
        case Conserves(input=name):
            ones = {name: Fill(kind="ones")}
            quiet, loud = base, _louder(problem, base)
            cases = (_named(quiet, "ones"), _named(loud, "ones, the other inputs large"))
            return tuple(dataclasses.replace(c, fills={**c.fills, **ones}) for c in cases)


def plain_axis(problem: Problem, axis: str) -> bool:
    """Whether slices along `axis` can be chosen freely.

    No computed size, index or offset may depend on it, no tensor carry it twice, and no state
    that a module keeps as it was built.
    """
    kept = [spec for spec in tensor_inputs(problem) if spec.name in problem.built_state]
    if any(axis in spec.shape for spec in kept):
        return False
    specs = (*tensor_inputs(problem), *problem.outputs)
    texts = [a.expression for a in problem.axes if isinstance(a, ExprAxis)]
    texts += [dimension for spec in specs for dimension in spec.shape if dimension != axis]
    texts += [text for spec in specs for text in domain_axes(spec.domain)]
    if any(axis in _NAME.findall(text) for text in texts):
        return False
    return all(spec.shape.count(axis) <= 1 for spec in specs)


def taken(case: Case, axis: str) -> tuple[int, ...] | None:
    """Return which slices of the base a case holds along `axis`, None where it is a base."""
    for fill in case.fills.values():
        rows = fill.parameters.get("take")
        if fill.parameters.get("take_axis") == axis and isinstance(rows, tuple):
            picked = [int(row) for row in rows]
            return tuple(picked[i % len(picked)] for i in range(case.axes[axis]))
    return None


def _parts(problem: Problem, base: Case, axis: str) -> tuple[Case, ...]:
    """The whole and two parts of unequal length, at the first split that is legal."""
    size = base.axes[axis]
    for first in sorted(range(1, size), key=lambda k: abs(k - size // 3)):
        wanted = {  # ranges: there may be thousands of splits of which none is legal
            f"the first {first}": range(first),
            f"the last {size - first}": range(first, size),
        }
        found = _takes(problem, base, axis, wanted)
        if len(found) == 3:
            return found
    return ()


def _takes(
    problem: Problem,
    base: Case,
    axis: str,
    wanted: Mapping[str, Sequence[int]],
    *,
    limit: int | None = None,
    promised: bool = True,
) -> tuple[Case, ...]:
    """Return the base and the legal ones of the wanted selections; () where none is legal.

    Without `promised` those of sizes that no caller was promised too.
    """
    if not plain_axis(problem, axis):
        raise ProblemError(
            f"slices along axis '{axis}' cannot be chosen: another size or an index depends on it"
        )
    found = [_named(base, f"all {base.axes[axis]}")]
    for label, rows in wanted.items():
        sizes = _sizes(problem, base, axis, len(rows))
        if sizes is None and not promised:
            sizes = try_sizes(problem, base.axes, {axis: len(rows)})
        if sizes is None or (limit is not None and elements(problem, sizes) > limit):
            continue
        found.append(take_slices(problem, base, axis, rows=rows, sizes=sizes, label=label))
    return tuple(found) if len(found) > 1 else ()


def _sizes(problem: Problem, base: Case, axis: str, size: int) -> dict[str, int] | None:
    """Return the base's sizes with another one of `axis`, None where no caller was promised it."""
    if size == base.axes[axis]:
        return dict(base.axes)
    found = next((a for a in problem.axes if a.name == axis), None)
    if not isinstance(found, VarAxis) or base.generator:
        return None
    used = {workload.axes.get(axis) for workload in problem.workloads}
    if not found.declared and size not in used:
        return None
    sizes = try_sizes(problem, base.axes, {axis: size})
    return sizes if sizes is not None and legal(problem, sizes) else None


def take_slices(
    problem: Problem,
    base: Case,
    axis: str,
    *,
    rows: Sequence[int],
    sizes: Mapping[str, int],
    label: str,
) -> Case:
    """Return the case of slices `rows` of the base along `axis`, at `sizes`."""
    parameters: dict[str, FillValue] = {
        "take": tuple(rows),
        "take_axis": axis,
        "take_of": base.axes[axis],
    }
    fills = dict(base.fills)
    for spec in tensor_inputs(problem):
        if axis in spec.shape:
            fills[spec.name] = with_parameters(own_fill(base, spec), parameters)
    return dataclasses.replace(base, label=label, axes=dict(sizes), fills=fills)


def _louder(problem: Problem, base: Case) -> Case:
    """Return the base with its real inputs of two axes and more five times as large."""
    case = base
    for spec in tensor_inputs(problem):
        real = isinstance(spec.domain, Real) and spec.dtype.is_floating
        if spec.name in problem.built_state:
            continue
        if real and len(spec.shape) > 1 and own_fill(base, spec).kind != GENERATED:
            fills = {**case.fills, spec.name: Fill(kind="normal", parameters={"scale": _LOUD})}
            case = dataclasses.replace(case, fills=fills)
    return case


def _changed(problem: Problem, base: Case, name: str, label: str, **parameters: float) -> Case:
    spec = problem.input(name)
    assert isinstance(spec, TensorSpec)
    bounded = isinstance(spec.domain, Positive) or (
        isinstance(spec.domain, Real) and (spec.domain.low, spec.domain.high) != (None, None)
    )
    return dataclasses.replace(
        base,
        label=label,
        fills={**base.fills, name: with_parameters(own_fill(base, spec), parameters)},
        in_domain=base.in_domain and not bounded,
    )


def own_fill(base: Case, spec: TensorSpec) -> Fill:
    """Return the fill of an input in the base, made explicit."""
    from cuassay.inputs.fills import default_fill

    usual = Fill(kind=GENERATED) if base.generator else default_fill(spec)
    return base.fills.get(spec.name) or usual


def with_parameters(fill: Fill, parameters: Mapping[str, FillValue]) -> Fill:
    """Return a fill with further parameters."""
    return Fill(kind=fill.kind, parameters={**fill.parameters, **parameters})


def _named(case: Case, label: str) -> Case:
    return dataclasses.replace(case, label=label)


def _order(base: Case, size: int) -> tuple[int, ...]:
    """Return a permutation of range(size) fixed by the case's seed; never the identity."""
    order = list(range(size))
    random.Random(base.seed).shuffle(order)
    found = tuple(order)
    return found if list(found) != sorted(found) else (*found[1:], *found[:1])

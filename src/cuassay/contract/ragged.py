"""Offsets and lengths among a problem's own integers, told by what the reference accepts.

A generator makes a few of them, often the same in every call. Where integers look like offsets
into an axis, or like lengths along one, others are given to the reference: they are what they seem
to be if it accepts those too, and its answer depends on them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from cuassay.contract.facts import Evidence, Known, Source, Used
from cuassay.contract.uses import EXPERIMENT
from cuassay.errors import CuassayError
from cuassay.formats.generated import is_stated, outside_domain
from cuassay.inputs.fills import make
from cuassay.inputs.geometry import tensor_inputs
from cuassay.model.axes import evaluate, names_in
from cuassay.model.case import Fill
from cuassay.model.device import Device
from cuassay.model.domain import Index, Lengths, Offsets, Opaque
from cuassay.model.dtype import DType
from cuassay.model.problem import ExprAxis, Problem, Scalar, TensorSpec
from cuassay.oracle.bits import raw_bytes

Values = Mapping[str, torch.Tensor | Scalar]
Run = Callable[[Values], Sequence[torch.Tensor]]
_OFFSETS, _LENGTHS = ("uniform", "even", "ragged"), ("uniform", "edges", "full", "one_long")
_LEAST = 2  # offsets of one part


def with_ragged(
    problem: Problem, looks: Sequence[Values], sizes: Mapping[str, int], *, run: Run, seed: int
) -> tuple[Problem, tuple[Known, ...]]:
    """Return the problem with offsets and lengths in the place of integers of unknown meaning.

    `looks` are the problem's own inputs of some seeds at `sizes`; `run` is the reference as
    written. Of several meanings that the values have, the first that the reference accepts counts.
    Lengths of 0 are legal where the problem's own values have one.
    """
    found: list[Known] = []
    for spec in tensor_inputs(problem):
        if not isinstance(spec.domain, Opaque) or is_stated(spec):
            continue
        if spec.dtype.is_floating or spec.dtype is DType.BOOL:
            continue
        own = [value for look in looks if isinstance(value := look[spec.name], torch.Tensor)]
        if len(own) < len(looks) or not all(value.numel() for value in own):
            continue
        for domain in _meanings(problem, spec, own, sizes):
            guess = dataclasses.replace(spec, domain=domain, domain_source=EXPERIMENT)
            if any(outside_domain(guess, value, sizes) for value in own):
                continue
            tried = _accepted(guess, looks[0], sizes, run=run, seed=seed)
            if not tried:
                continue
            inputs = tuple(guess if one is spec else one for one in problem.inputs)
            problem = dataclasses.replace(problem, inputs=inputs)
            how = "offsets" if isinstance(domain, Offsets) else "lengths"
            fact = Used(input=spec.name, how=how, axis=domain.axis)
            found.append(Known(fact=fact, evidence=Evidence(source=Source.TRIALS, count=tried)))
            break
    return problem, tuple(found)


def _meanings(
    problem: Problem, spec: TensorSpec, own: Sequence[torch.Tensor], sizes: Mapping[str, int]
) -> Iterator[Offsets | Lengths]:
    """Yield what an input may be: offsets into rows of another one, lengths along its axes.

    A row of a table of pages has as many elements as its entries have together; where the table is
    made for a longest row, `ceil(longest / page)`, no row is longer than that.
    """
    others = [one for one in tensor_inputs(problem) if one.name != spec.name]
    if len(spec.shape) == 1 and all(value.numel() >= _LEAST for value in own):
        for axis in dict.fromkeys(one.shape[0] for one in others if one.shape):
            if all(int(value[-1]) == evaluate(axis, sizes) for value in own):
                yield Offsets(axis=axis)
    ends = {evaluate(one.shape[0], sizes) for one in others if one.shape}
    if len(spec.shape) == 1 and all(int(value.sum()) in ends for value in own):
        return  # sizes of the parts of an axis: others would not add up to it
    low = min(1, *(int(value.min()) for value in own))
    rank = len(spec.shape)
    expressions = {one.name: one.expression for one in problem.axes if isinstance(one, ExprAxis)}
    free = {axis.name for axis in problem.var_axes()}
    for one in others:
        if not spec.shape or one.shape[:rank] != spec.shape or len(one.shape) == rank:
            continue
        if isinstance(one.domain, Index):
            for pages in others:
                if pages.shape[:1] == (one.domain.axis,) and len(pages.shape) > 1:
                    page = max(evaluate(pages.shape[1], sizes), 1)
                    longest = names_in(expressions.get(one.shape[rank], "0"))
                    for axis in sorted(longest & free):
                        if all(int(value.max()) == sizes[axis] for value in own):
                            yield Lengths(axis=axis, low=low, page=page)
                    room = "*".join(
                        part if part.isidentifier() or part.isdecimal() else f"({part})"
                        for part in map(str, (one.shape[rank], pages.shape[1]))
                    )
                    yield Lengths(axis=room, low=low, page=page)
        yield Lengths(axis=one.shape[rank], low=low)


def _accepted(
    guess: TensorSpec, values: Values, sizes: Mapping[str, int], *, run: Run, seed: int
) -> int:
    """Return how many other values of an input the reference accepts; 0 where it refuses one.

    It accepts them where its outputs have the same shapes and stay finite where they were. Values
    that change nothing tell nothing.
    """
    own = values[guess.name]
    assert isinstance(own, torch.Tensor)
    fills = [Fill(kind=kind) for kind in _LENGTHS]
    if isinstance(guess.domain, Offsets):
        # All rows in the last part: whether others may be empty is not left to chance.
        last = (0,) * (own.numel() - 1) + (evaluate(guess.domain.axis, sizes),)
        empty = Fill(kind="explicit", parameters={"values": last})
        fills = [*(Fill(kind=kind) for kind in _OFFSETS), empty]
    changed = False
    try:
        before = run(values)
        for number, fill in enumerate(fills):
            drawn = make(
                guess, fill, sizes=sizes, seed=seed + number, device=Device(str(own.device))
            )
            after = run({**values, guess.name: drawn})
            for old, new in zip(before, after, strict=True):
                if old.shape != new.shape:
                    return 0
                wide = old.is_floating_point() and old.dtype.itemsize > 1
                if wide and bool((old.isfinite() & ~new.isfinite()).any()):
                    return 0
                changed = changed or not torch.equal(raw_bytes(old), raw_bytes(new))
    except CuassayError:
        return 0
    return len(fills) if changed else 0

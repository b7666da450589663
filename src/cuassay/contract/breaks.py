"""Cases in which one fact of the problem's own inputs is broken, if the reference accepts that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import torch

from cuassay.contract.facts import (
    Arange,
    Constant,
    EqualSlices,
    Evidence,
    Fact,
    Known,
    Related,
    Sorted,
    Source,
    Stated,
    Structured,
    fact_words,
)
from cuassay.contract.observe import holds
from cuassay.contract.uses import EXPERIMENT
from cuassay.errors import CuassayError
from cuassay.formats.generated import is_stated, outside_domain
from cuassay.inputs.fills import default_fill
from cuassay.model.case import GENERATED, UNSTRUCTURED, Case, Fill, FillValue
from cuassay.model.domain import Lengths, Mask, Offsets, Opaque, Real, Structure
from cuassay.model.problem import Problem, Scalar, TensorSpec
from cuassay.oracle.bits import raw_bytes

Values = Mapping[str, torch.Tensor | Scalar]
_ACCEPTED = "the reference accepts it"
_NAMED = 3  # of many constants that are changed at once, so many are named
_VARIED = 0.5  # how far a constant is varied, relative to itself


def broken_cases(
    problem: Problem,
    base: Case,
    facts: Sequence[Known],
    *,
    most: int | None = None,
    inputs: Callable[[Case], Values],
    run: Callable[[Values], Sequence[torch.Tensor]],
    seed: Callable[[str], int],
) -> tuple[tuple[Case, ...], tuple[Known, ...]]:
    """Return the cases that the reference accepts, and the facts with what came of breaking them.

    A broken case is `base` with one input changed; what is constant of a module's state is changed
    at once, since a network has hundreds of such tensors. It counts as accepted where the
    reference runs, stays finite where it was finite, and returns something else than before. What
    the problem's author states of an input, a domain or a fact, is never broken. After `most`
    accepted cases no further fact is tried.
    """
    groups = [set(known.fact.inputs) for known in facts if isinstance(known.fact, Related)]
    before = _run(run, inputs(base))
    found: list[Case] = []
    said: list[Known] = []
    state = [
        one for one in facts if isinstance(one.fact, Constant) and one.fact.input in problem.state
    ]
    told = ""
    if not isinstance(before, str) and len(state) > 1:
        # `together` is the base case with everything that is constant of a module's state varied.
        cases = [_broken(problem, base, known.fact, seed) for known in state]
        fills = {
            name: fill for case in cases if case is not None for name, fill in case.fills.items()
        }
        some = ", ".join(fact_words(known.fact) for known in state[:_NAMED])
        more = f" and {len(state) - _NAMED} more are constant" if len(state) > _NAMED else ""
        together = dataclasses.replace(
            base, label="a state with other values", fills=fills, fact=f"{some}{more}"
        )
        told = refused(problem, together, before, inputs=inputs, run=run)
        found += [] if told else [together]
    for known in facts:
        if len(state) > 1 and known in state and not isinstance(before, str):
            said.append(dataclasses.replace(known, broken=told or _ACCEPTED))
            continue
        case = _broken(problem, base, known.fact, seed)
        if case is None or isinstance(before, str) or (most is not None and len(found) >= most):
            said.append(known)
            continue
        name = next(name for name, fill in case.fills.items() if fill != base.fills.get(name))
        related = sorted(set().union(*(group for group in groups if name in group)) - {name})
        legal = not related and not isinstance(known.fact, Structured)
        case = dataclasses.replace(
            case, fact=fact_words(known.fact), related=tuple(related), in_domain=legal
        )
        why = refused(problem, case, before, inputs=inputs, run=run)
        if not why:
            found.append(case)
        said.append(dataclasses.replace(known, broken=why or _ACCEPTED))
    return tuple(found), tuple(said)


def refused(
    problem: Problem,
    case: Case,
    before: Sequence[torch.Tensor],
    *,
    inputs: Callable[[Case], Values],
    run: Callable[[Values], Sequence[torch.Tensor]],
) -> str:
    """Return why the reference does not accept what a case changes; empty where it does.

    `before` are its outputs without the change.
    """
    changed = [name for name, fill in case.fills.items() if fill.parameters]
    try:
        values = inputs(case)
        stated = (_stated(problem, name, values[name], case.axes) for name in changed)
        return next(filter(None, stated), "") or _refusal(before, _run(run, values))
    except CuassayError as error:
        return str(error)


def stated_facts(problem: Problem) -> tuple[Known, ...]:
    """Return the facts that the problem's author states, as known facts."""
    return tuple(
        Known(
            fact=Stated(input=fact.input, kind=fact.kind, axis=fact.axis),
            evidence=Evidence(source=Source.DECLARED, text=fact.where),
        )
        for fact in problem.stated
    )


def _stated(
    problem: Problem, name: str, value: torch.Tensor | Scalar, sizes: Mapping[str, int]
) -> str:
    """Return what the problem's author states of an input that `value` breaks, in words.

    Offsets and lengths that runs of the reference showed count as stated: those in another order
    have no meaning, and what a reference makes of them is an accident.
    """
    spec = problem.input(name)
    if not isinstance(spec, TensorSpec) or not isinstance(value, torch.Tensor):
        return ""
    facts = [fact for fact in problem.stated if fact.input == name]
    for fact in facts:
        dim = spec.shape.index(fact.axis) if fact.axis else 0
        if not holds(fact.kind, value, dim=dim):
            stated = fact_words(Stated(input=name, kind=fact.kind, axis=fact.axis))
            return f"{fact.where} states that {stated}"
    shown = spec.domain_source == EXPERIMENT and isinstance(spec.domain, Offsets | Lengths)
    if not is_stated(spec) and not shown:
        return ""
    match spec.domain:
        case Opaque(why=why):
            # With facts of its own the input may have every value that keeps them.
            return "" if facts else f"only the problem's generator makes legal values: {why}"
        case Mask(kind=kind) if kind != "arbitrary":
            return f"its stated domain is a {kind} mask"
    outside = outside_domain(spec, value, sizes)
    known = "what it is used as" if shown else "its stated domain"
    return f"{known} holds no {outside}" if outside else ""


def _run(
    run: Callable[[Values], Sequence[torch.Tensor]], values: Values
) -> Sequence[torch.Tensor] | str:
    try:
        return run(values)
    except CuassayError as error:
        return str(error)


def _refusal(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor] | str) -> str:
    """Return why the reference does not accept a change, or that it makes no difference."""
    if isinstance(after, str):
        return f"the reference refuses it: {after}"
    same = True
    for old, new in zip(before, after, strict=True):
        if old.shape != new.shape:
            return "an output has another shape then"
        wide = old.is_floating_point() and old.dtype.itemsize > 1
        if wide and bool((torch.isfinite(old) & ~torch.isfinite(new)).any()):
            return "an output is no longer finite then"
        same = same and torch.equal(raw_bytes(old), raw_bytes(new))
    return "no output changes" if same else ""


def _broken(problem: Problem, base: Case, fact: Fact, seed: Callable[[str], int]) -> Case | None:
    """Return the base case with one fact broken; None where there is no such change."""
    parameters: dict[str, FillValue]
    match fact:
        case EqualSlices(input=name, dim=dim):
            spec = problem.input(name)
            if not isinstance(spec, TensorSpec) or len(spec.shape) < 2:
                return None
            parameters = {"roll_slices": dim}
            what = "slices that differ"
        case Arange(input=name) | Sorted(input=name):
            parameters, what = {"permute": seed(name) % 2**31}, "another order"
        case Constant(input=name, value=value):
            if not isinstance(value, bool | float) and value < 2:
                return None
            spec = problem.input(name)
            chosen = seed(name) % 2**31
            parameters, what = {"vary": _VARIED, "vary_seed": chosen}, "other values"
            if isinstance(spec.domain, Mask) and spec.dtype.is_floating:
                parameters = {"part": 0, "part_seed": chosen}  # a mask stays one: zeros and ones
        case Structured(input=name):
            spec = problem.input(name)
            if not isinstance(spec, TensorSpec) or not isinstance(spec.domain, Real):
                return None
            if spec.domain.structure is Structure.GENERAL:
                return None
            plain = dataclasses.replace(default_fill(spec), parameters={UNSTRUCTURED: True})
            return _with(base, name, plain, "no structure")
        case _:
            return None
    return _with(base, name, Fill(kind=GENERATED, parameters=parameters), what)


def _with(base: Case, name: str, fill: Fill, what: str) -> Case:
    return dataclasses.replace(base, label=f"{name} with {what}", fills={**base.fills, name: fill})

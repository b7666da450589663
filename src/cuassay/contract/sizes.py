"""Which sizes a reference accepts: proposed small and odd, kept where it runs, learnt from.

Nothing is assumed: an axis keeps a step, a minimum or a list of sizes only where other sizes
were refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from cuassay.contract.accept import Acceptor, own_case, workload_ratio
from cuassay.contract.facts import (
    AnySize,
    DerivedSize,
    Evidence,
    Known,
    OnlySizes,
    SizeFact,
    SizeRule,
    Source,
    StepOfSize,
    TiedSize,
)
from cuassay.inputs.geometry import elements, shares_of, workload_sizes
from cuassay.model.case import Case
from cuassay.model.problem import ExprAxis, Problem, VarAxis, Workload

# Odd primes say that an axis is free; powers of two which tiles a reference insists on.
_PROPOSED = (13, 7, 2, 3, 5, 1, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_ENOUGH = 4  # accepted odd sizes after which an axis counts as free
_ENOUGH_LONG = 2  # the same where each run is a long loop
# Rules over two axes, sizes of both with whether they are accepted, and what proposes a rule: a
# fact of the first axis and the size that the other had meanwhile.
_RULES: tuple[
    tuple[str, tuple[tuple[int, int, bool], ...], Callable[[StepOfSize, int], bool]], ...
] = (
    (
        "{axis} % {other} == 0",
        ((9, 3, True), (10, 3, False), (10, 5, True), (7, 5, False), (13, 13, True)),
        lambda fact, size: size > 1 and fact.multiple_of == size,
    ),
    (
        "{axis} >= {other}",
        ((3, 3, True), (2, 3, False), (7, 5, True), (4, 5, False), (13, 13, True)),
        lambda fact, size: fact.multiple_of == 1 and 1 < size <= fact.minimum,
    ),
)
_TIES = (2, 3)  # factors by which two tied axes are tried together


def learn_sizes(acceptor: Acceptor) -> tuple[Problem, tuple[Known, ...]]:
    """Return the problem with axes as its reference accepts them, and what was learnt.

    Axes with declared bounds stay as they are.
    """
    problem = acceptor.problem
    base = _base(problem, acceptor)
    if base is None:
        # `held` is the problem with every undeclared axis held to the sizes of its workloads.
        axes = [
            VarAxis(
                name=axis.name, sizes=_all_sizes(problem, axis.name), description=axis.description
            )
            if isinstance(axis, VarAxis) and not axis.declared
            else axis
            for axis in problem.axes
        ]
        held = dataclasses.replace(problem, axes=tuple(axes))
        evidence = Evidence(
            source=Source.WORKLOADS,
            count=len(problem.workloads),
            text="no size of ours was accepted",
        )
        listed = tuple(
            Known(fact=OnlySizes(axis=axis.name, sizes=_all_sizes(problem, axis.name)),
                  evidence=evidence)
            for axis in problem.var_axes()
        )  # fmt: skip
        return held, listed
    facts: list[Known] = []
    axes = list(problem.axes)
    refused: list[str] = []
    for position, axis in enumerate(axes):
        if not isinstance(axis, VarAxis) or not axis.is_open:
            continue
        fact, seen = _learn_axis(acceptor, base, axis)
        if fact is None:
            refused.append(axis.name)
            continue
        facts.append(Known(fact=fact, evidence=Evidence(source=Source.TRIALS, count=seen)))
        if isinstance(fact, StepOfSize):
            axes[position] = dataclasses.replace(
                axis, minimum=fact.minimum, multiple_of=fact.multiple_of
            )
        elif isinstance(fact, OnlySizes):
            axes[position] = dataclasses.replace(axis, sizes=fact.sizes)
        elif isinstance(fact, DerivedSize):
            axes[position] = dataclasses.replace(axis, derived=True)
    for name in refused:
        position = next(i for i, axis in enumerate(axes) if axis.name == name)
        tie = _tie(acceptor, base, name, refused)
        if tie is not None:
            axes[position] = ExprAxis(name=name, expression=tie)
            found: SizeFact = TiedSize(axis=name, expression=tie)
        else:
            sizes = tuple(sorted({_size(problem, w, name) for w in problem.workloads}))
            axes[position] = VarAxis(name=name, sizes=sizes)
            found = OnlySizes(axis=name, sizes=sizes)
        facts.append(Known(fact=found, evidence=Evidence(source=Source.TRIALS)))
    # A tied axis comes after what it follows from, and before what uses it.
    declared = {axis.name for axis in problem.axes if isinstance(axis, ExprAxis)}
    free = [axis for axis in axes if not isinstance(axis, ExprAxis)]
    tied = [axis for axis in axes if isinstance(axis, ExprAxis) and axis.name not in declared]
    given = [axis for axis in axes if isinstance(axis, ExprAxis) and axis.name in declared]
    learnt = dataclasses.replace(problem, axes=(*free, *tied, *given))
    return _with_rules(acceptor, base, learnt, facts)


def _with_rules(
    acceptor: Acceptor, base: Case, problem: Problem, facts: Sequence[Known]
) -> tuple[Problem, tuple[Known, ...]]:
    """Return the problem where what one axis allows is said by a rule over it and another.

    Sixteen heads are a multiple of the four key heads that `base` has: with three key heads the
    reference takes nine. Such rules are proposed where an axis has a step or a least size, and kept
    where they tell which of some further sizes are refused.
    """
    sizes = {known.fact.axis: known for known in facts if isinstance(known.fact, SizeFact)}
    free = [axis for axis in problem.var_axes() if axis.name in sizes and not axis.derived]
    rules: list[Known] = []
    ruled: set[str] = set()
    for axis in free:
        fact = sizes[axis.name].fact
        if not isinstance(fact, StepOfSize) or axis.name in ruled:
            continue
        for other in free:
            size = base.axes[other.name]
            if other is axis:
                continue
            for form, tried, fits in _RULES:
                if not fits(fact, size):
                    continue
                rule = form.format(axis=axis.name, other=other.name)
                answers = [
                    acceptor.sizes(base, {axis.name: one, other.name: two}) is not None
                    for one, two, _ in tried
                ]
                if answers == [accepted for _, _, accepted in tried]:
                    ruled |= {axis.name, other.name}
                    found = SizeRule(axis=axis.name, other=other.name, rule=rule)
                    count = len(answers)
                    evidence = Evidence(source=Source.TRIALS, count=count)
                    rules.append(Known(fact=found, evidence=evidence))
                    break
            if axis.name in ruled:
                break
    if not rules:
        return problem, tuple(facts)
    axes = tuple(
        dataclasses.replace(axis, minimum=1, multiple_of=1, sizes=())
        if isinstance(axis, VarAxis) and axis.name in ruled
        else axis
        for axis in problem.axes
    )
    said = tuple(rule.fact.rule for rule in rules if isinstance(rule.fact, SizeRule))
    changed = dataclasses.replace(problem, axes=axes, constraints=(*problem.constraints, *said))
    left = [
        known
        for known in facts
        if not isinstance(known.fact, SizeFact) or known.fact.axis not in ruled
    ]
    return changed, (*rules, *left)


def _base(problem: Problem, acceptor: Acceptor) -> Case | None:
    """Return a case of the problem's own smallest workload that the reference accepts.

    Where its run is a long loop, or where it is too large to be run with the data that the
    reference reads, sizes in the same proportions that are smaller.
    """
    listed = [workload_sizes(problem, workload) for workload in problem.workloads]
    for sizes in sorted(listed, key=lambda sizes: elements(problem, sizes))[:3]:
        own = own_case(problem, sizes, seed=1, label="a workload's sizes")
        parts = list(shares_of(problem, sizes))
        for part in [sizes, *parts] if acceptor.is_short(own) else [*parts, sizes]:
            case = acceptor.settle(dataclasses.replace(own, axes=part))
            if case is not None:
                return case
    return None


def _learn_axis(acceptor: Acceptor, base: Case, axis: VarAxis) -> tuple[SizeFact | None, int]:
    """Return what the sizes of one axis obey, the others as in `base`; None: all are refused."""
    own = base.axes[axis.name]
    accepted: list[int] = []
    refused: list[int] = []
    corrected = 0
    enough = _ENOUGH if acceptor.is_short(base) else _ENOUGH_LONG
    proposed = dict.fromkeys((*_PROPOSED, own - 1, own + 1, own // 2, 2 * own, 3 * own))
    for size in proposed:
        if size < 1 or size == own:
            continue
        sizes = acceptor.sizes(base, {axis.name: size})
        if sizes is not None and sizes[axis.name] == size:
            accepted.append(size)
        elif sizes is not None:
            corrected += 1
        else:
            refused.append(size)
        odd = [known for known in accepted if known % 2]
        if len(odd) >= enough and not refused:
            return AnySize(axis=axis.name, tried=tuple(accepted)), len(accepted)
        if len(refused) >= len(_PROPOSED) and not accepted:
            break
        if enough < _ENOUGH <= len(refused) and len(accepted) >= enough:
            break  # the larger ones run longer, and say no more
    seen = len(accepted) + len(refused) + corrected
    if corrected and not accepted:
        return DerivedSize(axis=axis.name), seen
    if not accepted:
        return None, seen
    accepted.append(own)
    listed = _all_sizes(acceptor.problem, axis.name)
    if own not in listed:  # `base` is smaller than all workloads, whose sizes are taken, too
        accepted.extend(listed)
    step, least = math.gcd(*accepted), min(accepted)
    if any(size % step == 0 and size > least for size in refused):
        return OnlySizes(axis=axis.name, sizes=tuple(sorted(accepted))), seen
    return StepOfSize(axis=axis.name, multiple_of=step, minimum=least), seen


def _tie(acceptor: Acceptor, base: Case, name: str, refused: Sequence[str]) -> str | None:
    """Return `name` as a multiple or fraction of another axis, if both change together."""
    problem = acceptor.problem
    for other in [axis.name for axis in problem.axes if isinstance(axis, VarAxis)]:
        if other == name or (other in refused and refused.index(other) < refused.index(name)):
            continue
        ratio = workload_ratio(problem, name, other)
        if not ratio or 1 not in (ratio.numerator, ratio.denominator):
            continue
        scaled = [
            acceptor.sizes(base, {n: base.axes[n] * factor for n in (name, other)})
            for factor in _TIES
        ]
        if all(sizes is not None for sizes in scaled):
            if ratio.numerator == 1:
                return other if ratio == 1 else f"{other} // {ratio.denominator}"
            return f"{other} * {ratio.numerator}"
    return None


def _size(problem: Problem, workload: Workload, name: str) -> int:
    return workload_sizes(problem, workload)[name]


def _all_sizes(problem: Problem, name: str) -> tuple[int, ...]:
    return tuple(sorted({_size(problem, workload, name) for workload in problem.workloads}))

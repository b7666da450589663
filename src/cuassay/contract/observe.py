"""Facts that hold in every run of a problem's own inputs, and which inputs share an ancestor."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import torch

from cuassay.contract.facts import (
    Arange,
    Binary,
    Bounded,
    Constant,
    Contradicted,
    Distinct,
    EqualSlices,
    Evidence,
    Known,
    NonNegative,
    SameForAllSeeds,
    Sorted,
    Source,
    Structured,
    ValueFact,
)
from cuassay.dispatch_modes import storage_of, tensors_in, without_memory
from cuassay.formats.domain_rules import domain_words
from cuassay.formats.generated import is_stated, outside_domain, unlike
from cuassay.hooks import Observed, Operation, PassThrough
from cuassay.inputs.legal import structure_of
from cuassay.inputs.packed import comparable
from cuassay.model.domain import Domain, Index, Mask, Opaque, Positive, Probability, Real, Structure
from cuassay.model.problem import InputSpec, Problem, Scalar, TensorSpec
from cuassay.model.stated import FactKind

Values = Mapping[str, torch.Tensor | Scalar]
_LARGE = 1 << 20  # elements; of more a part is looked at first
_SAMPLED = 8  # places along each dimension of that part
_SUM_ERROR = 0.02  # of a row of bfloat16 that adds up to 1
_LEAST = 3  # numbers in a row from which its order is no accident
# What these return depends on the shape of their argument alone.
_SHAPE_ONLY = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
    "randint_like", "new_empty", "new_zeros", "new_ones", "new_full", "normal_", "uniform_",
    "random_", "bernoulli_", "fill_", "zero_")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSample:
    """The problem's own inputs of one seed at some sizes."""

    values: Values
    sizes: Mapping[str, int]


def value_facts(problem: Problem, looks: Sequence[InputSample]) -> tuple[Known, ...]:
    """Return what holds for single tensor inputs in every one of `looks`.

    They are of different seeds, and better of different sizes: two positions count up, are never
    negative and hold zeros and ones alone, whatever they are; at a larger size one look may show
    what others are too small to show, and contradict what they seem to show.
    """
    found: list[Known] = []
    for spec in problem.inputs:
        if not isinstance(spec, TensorSpec):
            continue
        tensors = [
            (comparable(value), look.sizes)
            for look in looks
            if isinstance(value := look.values[spec.name], torch.Tensor) and value.numel()
        ]
        if len(tensors) < len(looks):
            continue
        seen: dict[ValueFact, None] = {}
        for tensor, sizes in tensors:
            seen |= dict.fromkeys(_facts(spec, tensor, sizes))
        facts = [fact for fact in seen if all(_agrees(fact, *one) for one in tensors)]
        alike = [tensor for tensor, _ in tensors if tensor.shape == tensors[0][0].shape]
        # A module's state is built under one seed: that is no fact of it.
        drawn = len(alike) > 1 and spec.name not in problem.state
        if drawn and all(_equal(alike[0], other) for other in alike[1:]):
            facts.append(SameForAllSeeds(input=spec.name))
        evidence = Evidence(source=Source.INPUTS, count=len(looks))
        found += [Known(fact=fact, evidence=evidence) for fact in facts]
    return tuple(found)


def _agrees(fact: ValueFact, tensor: torch.Tensor, sizes: Mapping[str, int]) -> bool:
    """Return whether nothing in a tensor contradicts a fact; too small a one never does."""
    match fact:
        case Constant(value=value):
            return bool((tensor == value).all())
        case EqualSlices(dim=dim):
            return holds(FactKind.ALONG, tensor, dim=dim)
        case Arange(start=start):
            return holds(FactKind.ARANGE, tensor) and int(tensor.reshape(-1)[0]) == start
        case Sorted():
            return holds(FactKind.SORTED, tensor)
        case Distinct():
            return holds(FactKind.DISTINCT, tensor)
        case Binary():
            return holds(FactKind.BINARY, tensor)
        case Structured(structure=structure):
            square = tensor.shape[-2:-1] == tensor.shape[-1:]
            return not square or not unlike(structure, tensor)
        case NonNegative():
            return holds(FactKind.NON_NEGATIVE, tensor)
        case Bounded(low=low, axis=axis):
            return int(tensor.min()) >= low and int(tensor.max()) < sizes[axis]
        case SameForAllSeeds():
            return True
    assert_never(fact)


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and bool(torch.equal(first, second))


def holds(kind: FactKind, tensor: torch.Tensor, *, dim: int = 0) -> bool:
    """Return whether a property holds for a tensor; `dim` is the dimension of `equal_along`.

    One element, or one slice, shows nothing and holds.
    """
    if not tensor.numel():
        return True
    tensor, last = comparable(tensor), tensor.shape[-1] if tensor.dim() else 0
    if tensor.numel() > _LARGE:
        part = _part(kind, tensor)
        if part.numel() < tensor.numel() and not holds(kind, part, dim=dim):
            return False
    match kind:
        case FactKind.CONSTANT:
            return bool((tensor == tensor.reshape(-1)[0]).all())
        case FactKind.ALONG:
            return bool((tensor == tensor.narrow(dim, 0, 1)).all())
        case FactKind.ARANGE:
            steps = torch.arange(last, device=tensor.device).to(tensor.dtype)
            return not last or bool((tensor == tensor.reshape(-1)[0] + steps).all())
        case FactKind.SORTED:
            return not last or bool((tensor.diff(dim=-1) >= 0).all())
        case FactKind.DISTINCT:
            return not last or bool((tensor.sort(dim=-1).values.diff(dim=-1) != 0).all())
        case FactKind.BINARY:
            return bool(((tensor == 0) | (tensor == 1)).all())
        case FactKind.SYMMETRIC:
            square = tensor.dim() > 1 and tensor.shape[-2] == last
            return square and _equal(tensor, tensor.mT)
        case FactKind.NON_NEGATIVE:
            return tensor.dtype is torch.bool or bool((tensor >= 0).all())
    assert_never(kind)


def _part(kind: FactKind, tensor: torch.Tensor) -> torch.Tensor:
    """Return a small part of a tensor that has every property that the whole has."""
    ordered = kind in (FactKind.ARANGE, FactKind.SORTED, FactKind.DISTINCT)
    steps = [max(1, -(-size // _SAMPLED)) for size in tensor.shape]
    if ordered:
        steps[-1] = 1
    elif kind is FactKind.SYMMETRIC and tensor.shape[-2:-1] != tensor.shape[-1:]:
        steps[-2:] = [1] * len(steps[-2:])
    return tensor[tuple(slice(None, None, step) for step in steps)]


def _facts(spec: TensorSpec, tensor: torch.Tensor, sizes: Mapping[str, int]) -> Iterator[ValueFact]:
    name, first = spec.name, tensor.reshape(-1)[0]
    if tensor.numel() > 1 and holds(FactKind.CONSTANT, tensor):
        yield Constant(input=name, value=first.item())
        return
    for dim, size in enumerate(tensor.shape):
        if size > 1 and holds(FactKind.ALONG, tensor, dim=dim):
            yield EqualSlices(input=name, dim=dim, axis=spec.shape[dim])
    floating, last = tensor.is_floating_point(), tensor.shape[-1] if tensor.dim() else 0
    if tensor.dtype is torch.bool:
        return
    if holds(FactKind.BINARY, tensor):
        yield Binary(input=name)
    elif holds(FactKind.NON_NEGATIVE, tensor):
        yield NonNegative(input=name)
    if (structure := structure_of(tensor)) is not Structure.GENERAL:
        yield Structured(input=name, structure=structure)
    if floating or last < _LEAST:
        return
    if holds(FactKind.ARANGE, tensor):
        yield Arange(input=name, start=int(first))
    elif holds(FactKind.SORTED, tensor):
        yield Sorted(input=name)
    if holds(FactKind.DISTINCT, tensor):
        yield Distinct(input=name)
    low, high = int(tensor.min()), int(tensor.max())
    above = {axis: size for axis, size in sizes.items() if low >= 0 and size == high + 1}
    if len(above) == 1:
        yield Bounded(input=name, low=low, axis=next(iter(above)))


def without_contradicted(
    problem: Problem, values: Values, sizes: Mapping[str, int], *, again: Callable[[], Values]
) -> tuple[Problem, tuple[Known, ...]]:
    """Return the problem without inferred domains that its generator's `values` do not keep.

    What a name or a use suggests is a guess; the values that the problem's author passes are not.
    Where these contradict it, a floating input may have every value, an integer one the
    generator's alone. One that seemed positive and is stays so, with bounds that hold these values.
    One whose rows all add up to 1, and of which nothing else is known than that it is positive,
    holds probabilities. One whose matrices have a structure keeps it, if the values of another
    seed, `again`, differ and have it too: a matrix of ones is symmetric whatever it stands for.
    """
    others: Values = {}
    inputs: list[InputSpec] = []
    found: list[Known] = []
    for spec in problem.inputs:
        value = values[spec.name]
        outside = ""
        if isinstance(spec, TensorSpec) and isinstance(value, torch.Tensor) and not is_stated(spec):
            # `outside` is a value that an inferred domain does not hold, in words; empty where
            # there is none.
            if not isinstance(spec.domain, Mask):
                outside = outside_domain(spec, value, sizes)
            else:
                numbers = value.float()
                strange = numbers[
                    (numbers > 0) & (numbers != 1)
                ]  # zeros and ones, or what is added to scores
                outside = repr(strange[0].item()) if strange.numel() else ""
        positive = isinstance(spec.domain, Positive) and not is_stated(spec)
        if (
            isinstance(value, torch.Tensor)
            and (spec.domain == Real() or positive)
            and _are_shares(value)
        ):
            spec = dataclasses.replace(spec, domain=Probability())
        elif outside and isinstance(value, torch.Tensor) and (wider := _wider(spec.domain, value)):
            spec = dataclasses.replace(spec, domain=wider)
        elif outside and isinstance(value, torch.Tensor) and (mark := _mark(spec, value, sizes)):
            spec = dataclasses.replace(spec, domain=mark)
        elif outside:
            fact = Contradicted(input=spec.name, guess=domain_words(spec.domain), value=outside)
            found.append(Known(fact=fact, evidence=Evidence(source=Source.INPUTS, count=1)))
            domain: Domain = Opaque(why="its name or use suggests other values")
            domain = Real() if spec.dtype.is_floating else domain
            spec = dataclasses.replace(spec, domain=domain)
        elif (
            isinstance(value, torch.Tensor)
            and isinstance(spec, TensorSpec)
            and isinstance(spec.domain, Real)
            and spec.shape[-2:-1] == spec.shape[-1:]  # square at every size
            and not is_stated(spec)
            and (structure := structure_of(value)) is not Structure.GENERAL
        ):
            others = others or again()
            other = others[spec.name]
            assert isinstance(other, torch.Tensor)
            if structure_of(other) is structure and not _equal(value, other):
                domain = dataclasses.replace(spec.domain, structure=structure)
                spec = dataclasses.replace(spec, domain=domain)
                seen = Structured(input=spec.name, structure=structure)
                found.append(Known(fact=seen, evidence=Evidence(source=Source.INPUTS, count=2)))
        inputs.append(spec)
    return dataclasses.replace(problem, inputs=tuple(inputs)), tuple(found)


def _wider(domain: Domain, value: torch.Tensor) -> Positive | None:
    """Return a domain of positive numbers with these as well; None where not all are positive."""
    if not isinstance(domain, Positive) or not value.is_floating_point():
        return None
    least, most = (float(end) for end in torch.aminmax(comparable(value).float()))
    if not 0.0 < least <= most < math.inf:
        return None
    return Positive(low=min(domain.low, least), high=max(domain.high, most))


def _mark(spec: InputSpec, value: torch.Tensor, sizes: Mapping[str, int]) -> Index | None:
    """Return the domain of indices with the one negative number that stands for padding.

    None where values lie outside that are not negative or not all the same.
    """
    domain = spec.domain
    if not isinstance(domain, Index) or not bool((value < 0).any()):
        return None
    marked = dataclasses.replace(domain, sentinels=(int(value.min()),))
    return (
        None if outside_domain(dataclasses.replace(spec, domain=marked), value, sizes) else marked
    )


def _are_shares(value: torch.Tensor) -> bool:
    """Whether every row along the last dimension is a probability distribution."""
    if not value.is_floating_point() or value.dim() == 0 or value.shape[-1] < _LEAST:
        return False
    rows = comparable(value)
    first = rows.reshape(-1, rows.shape[-1])[:1]  # one row says no of most, and needs no memory
    return all(
        bool((part >= 0).all())
        and bool(((part.sum(-1, dtype=torch.float64) - 1).abs() <= _SUM_ERROR).all())
        for part in (first, rows)
    )


class _Ancestry(PassThrough):
    """Notes for every storage which factory calls and random draws its values come from."""

    def __init__(self) -> None:
        self._roots: dict[int, frozenset[int]] = {}
        self._kept: list[torch.Tensor] = []  # so that no address is used again
        self._count = 0

    def after(self, operation: Operation, out: Any) -> object:
        """Note where the values of the results come from."""
        func, given = operation.op, tensors_in((operation.args, operation.kwargs))
        name = func.__name__.partition(".")[0]
        found: frozenset[int] = frozenset()
        if name not in _SHAPE_ONLY:
            found = frozenset().union(*(self.roots(tensor) for tensor in given))
        if not found or torch.Tag.nondeterministic_seeded in func.tags:
            self._count += 1
            found |= {self._count}
        for tensor in tensors_in(out):
            self._kept.append(tensor)
            self._roots[storage_of(tensor)] = found | (
                self.roots(tensor) if name.endswith("_") and name not in _SHAPE_ONLY else found
            )
        return out

    def roots(self, tensor: torch.Tensor) -> frozenset[int]:
        """Return the calls that the tensor's values come from."""
        return self._roots.get(storage_of(tensor), frozenset())


def related_inputs(generate: Callable[[], Mapping[str, object]]) -> tuple[frozenset[str], ...]:
    """Return groups of inputs whose values come from one factory call or random draw.

    Without memory where the generator looks at no number: all that it makes on its way is kept.
    """
    try:
        return without_memory(lambda: _related(generate))
    except Exception:
        return _related(generate)


def _related(generate: Callable[[], Mapping[str, object]]) -> tuple[frozenset[str], ...]:
    ancestry = _Ancestry()
    with Observed(ancestry):
        made = generate()
        roots = {
            name: ancestry.roots(value)
            for name, value in made.items()
            if isinstance(value, torch.Tensor)
        }
    groups: list[tuple[set[str], set[int]]] = []
    for name, own in roots.items():
        joined = ({name}, set(own))
        for group in [group for group in groups if group[1] & own]:
            groups.remove(group)
            joined = (joined[0] | group[0], joined[1] | group[1])
        groups.append(joined)
    return tuple(frozenset(names) for names, _ in groups if len(names) > 1)

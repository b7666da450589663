"""Relations that a reference obeys and its kernels must obey too. Plain data.

Every relation may be limited to some `outputs` by name; empty means every output that it can
be stated for. Axes are axis names as they stand in the shapes of inputs and outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsIndependent:
    """Slice i along `axis` of an output depends on slice i of the inputs that carry it alone.

    So a row gives the same answer in another batch, at another position, beside copies of
    itself.
    """

    axis: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationEquivariant:
    """Permuting `axis` in all inputs permutes outputs that carry it; the others stay."""

    axis: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicatesAgree:
    """Equal slices along `axis` of all inputs give equal slices of the output."""

    axis: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixStable:
    """The first k slices along `axis` of the output depend on the first k of the inputs alone.

    What a causal operator promises: prefill of k tokens equals the start of a longer one.
    """

    axis: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditiveOver:
    """An output without `axis` is the sum over parts of the axis; `mean`: weighted by length.

    So accumulating k micro-batches equals one batch.
    """

    axis: str
    mean: bool = False
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearIn:
    """f(a) + f(b) = f(a + b) and f(2a) = 2 f(a) in one input: an upstream gradient, say."""

    input: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Homogeneous:
    """f(c a) = c**degree f(a) for positive c in one input; degree 0: its scale is irrelevant."""

    input: str
    degree: int
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftInvariant:
    """A constant added to each slice along `axis` of one input changes nothing (soft-max)."""

    input: str
    axis: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsSumToOne:
    """`output` sums to one along `axis`."""

    output: str
    axis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conserves:
    """Where `input` is one everywhere, the outputs are (attention with V = 1)."""

    input: str
    outputs: tuple[str, ...] = ()


Relation: TypeAlias = (
    RowsIndependent
    | PermutationEquivariant
    | DuplicatesAgree
    | PrefixStable
    | AdditiveOver
    | LinearIn
    | Homogeneous
    | ShiftInvariant
    | RowsSumToOne
    | Conserves
)


def outputs_of(relation: Relation) -> tuple[str, ...]:
    """Return the outputs that a relation is limited to, () for every one that it fits."""
    return (relation.output,) if isinstance(relation, RowsSumToOne) else relation.outputs


def text_of(relation: Relation) -> str:
    """Return a relation as its user writes it, without the outputs."""
    match relation:
        case RowsSumToOne(output=output, axis=axis):
            arguments = f"output='{output}', axis='{axis}'"
        case ShiftInvariant(input=name, axis=axis):
            arguments = f"input='{name}', axis='{axis}'"
        case Homogeneous(input=name, degree=degree):
            arguments = f"input='{name}', degree={degree}"
        case LinearIn(input=name) | Conserves(input=name):
            arguments = f"input='{name}'"
        case AdditiveOver(axis=axis, mean=mean):
            arguments = f"axis='{axis}'" + (", mean=True" if mean else "")
        case _:
            arguments = f"axis='{relation.axis}'"
    return f"{type(relation).__name__}({arguments})"


def words_of(relation: Relation) -> str:
    """Return what a relation says, as half a sentence."""
    match relation:
        case RowsIndependent(axis=axis):
            return f"each slice along '{axis}' depends on its own inputs alone"
        case PermutationEquivariant(axis=axis):
            return f"the order along '{axis}' carries no meaning"
        case DuplicatesAgree(axis=axis):
            return f"equal slices along '{axis}' give equal results"
        case PrefixStable(axis=axis):
            return f"the start of '{axis}' does not depend on what follows"
        case AdditiveOver(axis=axis, mean=mean):
            return f"the whole of '{axis}' is the {'weighted mean' if mean else 'sum'} of its parts"
        case LinearIn(input=name):
            return f"the result is linear in '{name}'"
        case Homogeneous(input=name, degree=degree):
            return f"scaling '{name}' by c scales the result by c**{degree}"
        case ShiftInvariant(input=name, axis=axis):
            return f"a constant added to '{name}' along '{axis}' changes nothing"
        case RowsSumToOne(output=output, axis=axis):
            return f"'{output}' sums to one along '{axis}'"
        case Conserves(input=name):
            return f"'{name}' of ones gives ones"

"""Facts about a problem's inputs and sizes, each with the evidence for it. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from cuassay.model.domain import Structure
from cuassay.model.stated import FactKind


class Source(StrEnum):
    """Where a fact was seen. What is declared wins over everything else."""

    DECLARED = "declared"
    WORKLOADS = "workloads"
    INPUTS = "the problem's own inputs"
    REFERENCE = "the reference"
    TRIALS = "trials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How a fact is known: `count` runs, workloads or trials showed it."""

    source: Source
    count: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnySize:
    """The reference accepts sizes of this axis that no workload lists; `tried` are examples."""

    axis: str
    tried: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOfSize:
    """The reference accepts multiples of `multiple_of` from `minimum` on."""

    axis: str
    multiple_of: int
    minimum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlySizes:
    """The reference accepts these sizes of an axis; every other one that was tried it refuses."""

    axis: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TiedSize:
    """An axis is a function of other axes, such as `2 * heads`."""

    axis: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRule:
    """Sizes of two axes that the reference accepts together, such as `heads % kv_heads == 0`."""

    axis: str
    other: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedSize:
    """An axis whose size the reference or the generator decides, given the other axes."""

    axis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Every element of an input has one value, whatever the seed."""

    input: str
    value: float | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualSlices:
    """All slices of an input along dimension `dim` (named `axis`) are equal."""

    input: str
    dim: int
    axis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arange:
    """Every row of an input along its last dimension is `start`, `start` + 1, ..."""

    input: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """No row of an input decreases along its last dimension."""

    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """No row of an integer input along its last dimension holds a number twice."""

    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Every element is 0 or 1."""

    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Structured:
    """The matrices of an input's last two dimensions have a structure."""

    input: str
    structure: Structure


@dataclass(frozen=True, slots=True, kw_only=True)
class NonNegative:
    """No element is negative, though the dtype could hold such."""

    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Integers from `low` to less than the size of `axis`."""

    input: str
    low: int
    axis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SameForAllSeeds:
    """An input does not depend on random draws."""

    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """Inputs that the generator makes from one another or from one common tensor."""

    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The reference uses an integer input so: an index into `axis`, or a cast to a float."""

    input: str
    how: str
    axis: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted:
    """The problem's own values of an input are none of `guess`, which its name or use suggests."""

    input: str
    guess: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the problem's author states of an input; `axis` names the one of `equal_along`."""

    input: str
    kind: FactKind
    axis: str = ""


SizeFact: TypeAlias = AnySize | StepOfSize | OnlySizes | TiedSize | SizeRule | DerivedSize
ValueFact: TypeAlias = (
    Constant
    | EqualSlices
    | Arange
    | Sorted
    | Distinct
    | Binary
    | Structured
    | NonNegative
    | Bounded
    | SameForAllSeeds
)
Fact: TypeAlias = SizeFact | ValueFact | Related | Used | Contradicted | Stated


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A fact and the evidence for it. `broken` says what came of breaking it, if that was tried."""

    fact: Fact
    evidence: Evidence
    broken: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One trial: sizes or a change of values, and why the reference refused it, if it did."""

    what: str
    refused: str = ""


def fact_words(fact: Fact) -> str:  # noqa: C901, PLR0911, PLR0912  # a sentence a kind of fact
    """Return a fact as a clause, such as `position_ids has the same values in every row`."""
    match fact:
        case AnySize(axis=axis):
            return f"{axis} may have sizes that no workload lists"
        case StepOfSize(axis=axis, multiple_of=step, minimum=least):
            return f"{axis} is a multiple of {step}, at least {least}"
        case OnlySizes(axis=axis, sizes=sizes):
            return f"{axis} is one of {', '.join(map(str, sizes))}"
        case TiedSize(axis=axis, expression=expression):
            return f"{axis} = {expression}"
        case SizeRule(rule=rule):
            return f"the reference takes sizes of which {rule}"
        case DerivedSize(axis=axis):
            return f"{axis} follows from the other axes"
        case Constant(input=name, value=value):
            return f"every element of {name} is {value:g}"
        case EqualSlices(input=name, dim=dim, axis=axis):
            return f"all slices of {name} along {axis or f'dimension {dim}'} are equal"
        case Arange(input=name, start=start):
            return f"every row of {name} counts up from {start}"
        case Sorted(input=name):
            return f"every row of {name} is sorted"
        case Distinct(input=name):
            return f"no row of {name} holds a number twice"
        case Binary(input=name):
            return f"{name} holds zeros and ones alone"
        case Structured(input=name, structure=structure):
            return f"{name} is {structure.words}"
        case NonNegative(input=name):
            return f"{name} is never negative"
        case Bounded(input=name, low=low, axis=axis):
            return f"{name} lies from {low} to {axis} - 1"
        case SameForAllSeeds(input=name):
            return f"{name} does not depend on random draws"
        case Related(inputs=names):
            return f"{', '.join(names)} come from one another or from one tensor"
        case Contradicted(input=name, guess=guess, value=value):
            return f"{name} is not {guess}, as it seemed: the problem's own values hold {value}"
        case Stated(input=name, kind=kind, axis=axis):
            match kind:
                case FactKind.CONSTANT:
                    return f"{name} has one value in every element"
                case FactKind.ALONG:
                    return f"all slices of {name} along {axis} are equal"
                case FactKind.ARANGE:
                    return f"every row of {name} counts up by one"
                case FactKind.SORTED:
                    return fact_words(Sorted(input=name))
                case FactKind.DISTINCT:
                    return fact_words(Distinct(input=name))
                case FactKind.BINARY:
                    return fact_words(Binary(input=name))
                case FactKind.SYMMETRIC:
                    return f"{name} is symmetric"
                case FactKind.NON_NEGATIVE:
                    return fact_words(NonNegative(input=name))
            assert_never(kind)
        case Used(input=name, how=how, axis=axis):
            return f"the reference uses {name} as {how}" + (f" of {axis}" if axis else "")
    assert_never(fact)

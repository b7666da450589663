"""What is known of the problem on trial, and the one way in which learning replaces it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from cuassay.contract.facts import Known, SizeFact, Source
from cuassay.inputs.named_sizes import NamedSize
from cuassay.model.case import Case, Fill
from cuassay.model.problem import Problem, StateSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Where cases are planned.

    `known` are cases of earlier trials, `named` sizes that the candidate's sources or launches
    speak of, `values` those that its sources compare elements with, `varied` fills in place of the
    problem's own values, `quieter` a numeric case of smaller inputs. With `own_alone` only the
    problem's own workloads are judged. The conditions say what an acceptance depends on, '' for
    nothing.
    """

    problem: Problem
    facts: tuple[Known, ...] = ()
    known: tuple[Case, ...] = ()
    named: tuple[NamedSize, ...] = ()
    values: tuple[float, ...] = ()
    varied: Mapping[str, Fill] = field(default_factory=dict)
    quieter: Case | None = None
    own_alone: bool = False
    built_condition: str = ""
    listed_condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """An experiment showed what the problem's inputs are, or which sizes it accepts."""

    problem: Problem
    facts: tuple[Known, ...]  # all that are known now


@dataclass(frozen=True, slots=True)
class RefusedWithData:
    """Runs with data refuse sizes that runs without accepted: what those showed is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCasesAlone:
    """The reference, or the kernel, refused even the smallest case of ours.

    `condition` says which sizes the kernel takes, where it is the kernel that refuses others.
    """

    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltSizesAlone:
    """A kernel follows some axes with the sizes alone that the problem builds its module with.

    `beside` are smaller sizes of these axes with which it is right as well.
    """

    axes: tuple[str, ...]
    beside: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFrom:
    """A module takes its state from `source` in every case."""

    source: StateSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The candidate's sources or launches speak of sizes, its sources of values of elements."""

    sizes: tuple[NamedSize, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Varied:
    """Truth decides nothing with the problem's own values: these take their place."""

    fills: Mapping[str, Fill]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quieter:
    """Some output decides something with smaller inputs alone."""

    case: Case


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCases:
    """Earlier trials of the same kernel failed on these cases."""

    cases: tuple[Case, ...]


Lesson: TypeAlias = (
    Learnt
    | RefusedWithData
    | OwnCasesAlone
    | BuiltSizesAlone
    | StateFrom
    | Named
    | Varied
    | Quieter
    | KnownCases
)


def replan(domain: Domain, lesson: Lesson) -> Domain:  # an arm a lesson
    """Return where cases are planned from now on."""
    match lesson:
        case Learnt(problem=problem, facts=facts):
            return dataclasses.replace(domain, problem=problem, facts=facts)
        case RefusedWithData():
            facts = tuple(
                known
                for known in domain.facts
                if not isinstance(known.fact, SizeFact)
                or known.evidence.source is not Source.TRIALS
            )
            return dataclasses.replace(domain, facts=facts)
        case OwnCasesAlone(condition=condition):
            return dataclasses.replace(
                domain, own_alone=True, listed_condition=condition or domain.listed_condition
            )
        case BuiltSizesAlone(axes=axes, beside=beside):
            held = domain.problem.as_built(axes, beside=beside)
            sizes = ", ".join(
                f"{axis.name}={axis.sizes[0]}"
                if len(axis.sizes) == 1
                else f"{axis.name} in {{{', '.join(map(str, axis.sizes))}}}"
                for axis in held.var_axes()
                if axis.name in axes
            )
            return dataclasses.replace(
                domain,
                problem=held,
                built_condition=(
                    f"built: judged with {sizes} alone, as the problem builds the module"
                    f"{' or with one tile' if beside else ''}; built with other "
                    "sizes, which the reference accepts, the kernel fails or is wrong"
                ),
            )
        case StateFrom(source=source):
            problem = domain.problem.with_state_from(source)
            known = tuple(
                dataclasses.replace(case, scalars={**case.scalars, **problem.usual_state})
                for case in domain.known
            )
            return dataclasses.replace(domain, problem=problem, known=known)
        case Named(sizes=sizes, values=values):
            return dataclasses.replace(
                domain,
                named=tuple(dict.fromkeys((*domain.named, *sizes))),
                values=tuple(dict.fromkeys((*domain.values, *values))),
            )
        case Varied(fills=fills):
            return dataclasses.replace(domain, varied=fills)
        case Quieter(case=quieter):
            return dataclasses.replace(domain, quieter=quieter)
        case KnownCases(cases=cases):
            return dataclasses.replace(domain, known=cases)
        case other:
            assert_never(other)


class Knowledge:
    """Holds the domain that is in force: what learns replaces it, what plans looks at it."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    @property
    def problem(self) -> Problem:
        """The operator, as far as it is known now."""
        return self.domain.problem

    def learn(self, lesson: Lesson) -> None:
        """Replace the domain."""
        self.domain = replan(self.domain, lesson)

"""One set of inputs as data: axis sizes, a fill recipe per input, scalars and a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cuassay.model.problem import Scalar

FillValue: TypeAlias = float | int | bool | str | tuple[float | int | bool, ...]
ALSO = "also"  # parameter of a fill: the number that is not finite and stands among the others
UNSTRUCTURED = "unstructured"  # parameter of a fill that need not keep the domain's structure
GENERATED = "generated"  # fill kind: what the problem's own generator made, then transformed


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """A recipe for one tensor's values: `kind` names an entry of `inputs.fills`."""

    kind: str
    parameters: Mapping[str, FillValue] = field(default_factory=dict)


TRAINING, DECODING = LOOPS = "training", "decoding"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """A step of a trusted loop: `loop` is one of LOOPS, `site` the place of the kernel."""

    loop: str
    site: str
    data: str
    optimizer: str
    step: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One set of inputs. `axes` are resolved sizes of every axis.

    With `generator=True` the problem's own generator is run under `seed` and the entries of
    `fills` and `scalars` replace what it made. With `benchmark=True` the inputs are those that
    the benchmark's own rules draw for `workload` under `seed`. With `state` they are what a loop
    hands to the kernel at that step. `in_domain` is False where any value lies outside the
    declared or inferred domain. `fact` says in words which fact of the problem's own inputs it
    breaks, `related` which other inputs belong to the one that is changed.
    """

    label: str
    axes: Mapping[str, int]
    fills: Mapping[str, Fill] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    seed: int = 0
    generator: bool = False
    benchmark: bool = False
    workload: str | None = None
    in_domain: bool = True
    state: LoopState | None = None
    fact: str = ""
    related: tuple[str, ...] = ()

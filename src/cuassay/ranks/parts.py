"""What one rank is given of a problem's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuassay.model.domain import SizeOf
from cuassay.model.problem import InputSpec
from cuassay.model.ranks import AXIS, Lies, Ranks, parts


def rank_count(inputs: Sequence[InputSpec], given: Sequence[Any], ranks: Ranks) -> int:
    """Return how many ranks a call has, by its inputs."""
    for spec, value in zip(inputs, given, strict=True):
        if spec.name in ranks.own:
            return int(value.shape[0])
        if isinstance(spec.domain, SizeOf) and spec.domain.axis == AXIS:
            return int(value)
    raise ValueError("no input says how many ranks there are")


def part_of(value: Any, name: str, ranks: Ranks, *, rank: int, count: int) -> Any:
    """Return what a rank is given of an input: a copy of what other ranks are given too."""
    match ranks.lies(name):
        case Lies.OWN:
            return value[rank]
        case Lies.SPLIT:
            start, end = parts(value.shape[0], count)[rank]
            return value[start:end]
        case Lies.WHOLE:
            return value if isinstance(value, bool | int | float) else value.clone()

"""Judge the sums of an output: energy, normalised score and both projections of every group.

All groups of all kinds are judged in one go, on the device: `measure_groups` gives one vector,
`read_groups` makes statistics of it once it has come over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.oracle.compare.groups import (
    LIMIT_G,
    LIMIT_P,
    LIMIT_Z,
    Statistic,
    group_name,
    projection,
    regroup,
)
from cuassay.oracle.compare.sums import Sums
from cuassay.oracle.truth.types import OutputTruth

_JUDGED = (
    ("G", LIMIT_G, ""),
    ("Z", LIMIT_Z, ""),
    ("P", LIMIT_P, " (gain)"),
    ("P", LIMIT_P, " (bias)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScores:
    """The worst of each statistic per kind of group, and what the report needs of the sums."""

    statistics: tuple[Statistic, ...]
    energy: float  # norm2 of the error, natural units
    signal: float
    trusted: float
    gain: float  # sum of z * w over the whole tensor
    bias: float  # sum of z
    hit_errors: dict[str, tuple[float, float]]


def measure_groups(sums: Sums, truth: OutputTruth) -> Tensor:
    """Return what `read_groups` reads, a float64 vector; nothing waits for the device."""
    assert truth.joined is not None  # as in every truth of a floating output
    sticks, among = truth.yardsticks, truth.joined
    shape, hits = truth.value.shape, truth.hits
    parts = [regroup(sums.rows, sums.columns, stick, shape=shape, hits=hits) for stick in sticks]
    whole = torch.cat(parts, 1)
    size = (whole[:2] / among.base).sqrt_().div_(among.common)
    way = projection(whole[2:], among.norm, among.room).div_(among.trust)
    scores = torch.where(among.judged, torch.cat([size, way]), -1.0)  # G, Z, P, P; -1: not judged
    numbers = []
    split = torch.split(scores, [part.shape[1] for part in parts], 1)
    for score, part, stick in zip(split, parts, sticks, strict=True):
        value, index = score.max(1)
        numbers += [value, index.double()]
        if stick.kind == "tensor":
            numbers += [part[:, 0], stick.energy, stick.signal]
        elif stick.kind == "hits":
            numbers += [part[0], stick.energy, stick.signal]
    return torch.cat(numbers)


def read_groups(numbers: Sequence[float], truth: OutputTruth) -> GroupScores:
    """Return the verdict on every kind of group from what `measure_groups` found."""
    source = iter(numbers)
    statistics: list[Statistic] = []
    energy = gain = bias = trusted = signal = 0.0
    errors: dict[str, tuple[float, float]] = {}
    square = truth.unit**2
    for stick in truth.yardsticks:
        values, places = _take(source, 4), _take(source, 4)
        for value, place, (name, limit, suffix) in zip(values, places, _JUDGED, strict=True):
            if value >= 0:
                group = group_name(stick, int(place), truth.value.shape) + suffix
                statistics.append(Statistic(name=name, value=value, limit=limit, group=group))
        if stick.kind == "tensor":
            energy, _, gain, bias, trusted, signal = _take(source, 6)
        elif stick.kind == "hits":
            columns = [_take(source, len(stick.labels)) for _ in range(3)]
            for label, got, allowed, whole in zip(stick.labels, *columns, strict=True):
                if whole > 0:
                    pair = (got, allowed)
                    first, second = (math.sqrt(part * square / whole) for part in pair)
                    errors[label] = (first, second)
    return GroupScores(
        statistics=tuple(statistics),
        energy=energy * square,
        signal=signal,
        trusted=trusted * square,
        gain=gain,
        bias=bias,
        hit_errors=errors,
    )


def _take(source: Iterator[float], count: int) -> list[float]:
    return [next(source) for _ in range(count)]

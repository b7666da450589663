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
    GroupKind,
    Statistic,
    group_name,
    projection,
    regroup,
)
from cuassay.oracle.compare.sums import Sums
from cuassay.oracle.truth.types import Joined, OutputTruth, Yardstick

_JUDGED = (
    ("G", LIMIT_G, ""),
    ("Z", LIMIT_Z, ""),
    ("P", LIMIT_P, " (gain)"),
    ("P", LIMIT_P, " (bias)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The worst of each statistic per kind of group, and what the report needs of the sums."""

    statistics: tuple[Statistic, ...]
    energy: float  # norm2 of the error, natural units
    signal: float
    trusted: float
    gain: float  # sum of z * w over the whole tensor
    bias: float  # sum of z
    hit_errors: dict[str, tuple[float, float]]


def judge_groups(sums: Sums, truth: OutputTruth) -> Judged:
    """Evaluate energy, normalised score and both projections on every group."""
    return read_groups(measure_groups(sums, truth).tolist(), truth)


def measure_groups(sums: Sums, truth: OutputTruth) -> Tensor:
    """Return what `read_groups` reads, a float64 vector; nothing waits for the device."""
    assert truth.joined is not None  # as in every truth of a floating output
    sticks = truth.yardsticks
    parts = [_reduce(sums, truth, stick) for stick in sticks]
    scores = _scores(torch.cat(parts, 1), truth.joined)
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


def _reduce(sums: Sums, truth: OutputTruth, stick: Yardstick) -> Tensor:
    kind = GroupKind(kind=stick.kind, axis=stick.axis)
    return regroup(sums.rows, sums.columns, kind, shape=truth.value.shape, hits=truth.hits)


def _scores(sums: Tensor, among: Joined) -> Tensor:
    """Return (4, groups of all kinds): G, Z, P of the gain, P of the bias; -1: not judged."""
    size = (sums[:2] / among.base).sqrt_().div_(among.common)
    way = projection(sums[2:], among.norm, among.room).div_(among.trust)
    return torch.where(among.judged, torch.cat([size, way]), -1.0)


def read_groups(numbers: Sequence[float], truth: OutputTruth) -> Judged:
    """Return the verdict on every kind of group from what `measure_groups` found."""
    source = iter(numbers)
    statistics: list[Statistic] = []
    energy = gain = bias = trusted = signal = 0.0
    errors: dict[str, tuple[float, float]] = {}
    square = truth.unit**2
    for stick in truth.yardsticks:
        statistics += _worst(_take(source, 4), _take(source, 4), stick, truth.value.shape)
        if stick.kind == "tensor":
            energy, _, gain, bias, trusted, signal = _take(source, 6)
        elif stick.kind == "hits":
            columns = [_take(source, len(stick.labels)) for _ in range(3)]
            for label, got, allowed, whole in zip(stick.labels, *columns, strict=True):
                if whole > 0:
                    pair = (got, allowed)
                    first, second = (math.sqrt(part * square / whole) for part in pair)
                    errors[label] = (first, second)
    return Judged(
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


def _worst(
    values: Sequence[float], places: Sequence[float], stick: Yardstick, shape: Sequence[int]
) -> list[Statistic]:
    found = []
    for value, place, (name, limit, suffix) in zip(values, places, _JUDGED, strict=True):
        if value >= 0:
            group = group_name(stick, int(place), shape) + suffix
            found.append(Statistic(name=name, value=value, limit=limit, group=group))
    return found

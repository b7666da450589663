"""Compare a candidate's output with truth: every statistic over every group, in few passes.

`compare` never raises for what a candidate returned: a wrong shape or dtype gives a failed
Comparison whose `mismatch` says so. Limits: `groups`,
their calibration: docs/oracle.md. Extra memory: row and column sums (a few bytes per row of 1024
elements) and, for a candidate that is not contiguous, one copy of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from cuassay.model.outcome import ErrorMap
from cuassay.model.precision import Precision
from cuassay.oracle import special
from cuassay.oracle.compare import details
from cuassay.oracle.compare.exact import judge_choice, judge_exact
from cuassay.oracle.compare.groups import (
    HIT_LABELS,
    LIMIT_G,
    LIMIT_P,
    LIMIT_Z,
    Statistic,
    group_name,
    limit_w,
    regroup,
    unravel,
)
from cuassay.oracle.compare.sums import MISMATCH, Matrices, Sums, eager_sums, matrix_shape
from cuassay.oracle.truth.outputs import AMBIGUOUS_CAP, ILL_CONDITIONED
from cuassay.oracle.truth.types import OutputTruth, TrustedBias, Yardsticks

__all__ = ["Bias", "Comparison", "Statistic", "compare", "measure", "output_sums"]

_BEYOND_REASON = 1024.0  # times the trusted error, of an output of which it is most
_JUDGED = (
    ("G", LIMIT_G, ""),
    ("Z", LIMIT_Z, ""),
    ("P", LIMIT_P, " (gain)"),
    ("P", LIMIT_P, " (bias)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias:
    """One case's whole-tensor projection sums, to be accumulated over seeds."""

    kind: str  # gain | bias
    projection: float
    trusted: TrustedBias


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What came of one output. `share` is the worst value over its limit: above 1 fails.

    `relative_error` is norm(error) / norm(truth) over the whole tensor, `groups` the same per
    hit group as (candidate, trusted). `worst_index` is where |z| peaks; `got` and `expected`
    are the numbers there (NaN where there is none). `undecided` says why the numbers decide
    nothing: they are still measured, but spend no budget. `precision` is the least family of
    trusted kernels known to explain the error; of a failed comparison one beyond the policy, or
    `strict` where none is known.
    """

    output: str
    passed: bool
    share: float
    statistics: tuple[Statistic, ...] = ()
    worst_index: tuple[int, ...] = ()
    got: float = math.nan
    expected: float = math.nan
    relative_error: float = 0.0
    trusted_relative_error: float = 0.0
    groups: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    bias: tuple[Bias, ...] = ()
    error_map: ErrorMap | None = None
    mismatch: str = ""
    ambiguous_share: float = 0.0
    undecided: str = ""
    precision: Precision = Precision.STRICT

    @property
    def worst(self) -> Statistic | None:
        """The statistic that uses the largest share of its limit."""
        return max(self.statistics, key=lambda found: found.share, default=None)

    @property
    def is_of_other_class(self) -> bool:
        """Whether elements are NaN, infinite or finite where truth and the reference are not."""
        return any(one.name == "class" and one.share > 1.0 for one in self.statistics)


def compare(candidate: Tensor, truth: OutputTruth) -> Comparison:
    """Judge one output. `candidate` may live on any device and have any layout.

    Of an ill-conditioned output only what is certain is judged: its shape, its type, whether
    places along an axis are places at all, an error beyond all reason, and numbers that are not
    finite where whichever way the elements flip gives finite ones.
    """
    found = measure(candidate, truth)
    if not truth.ill_conditioned or found.mismatch or _beyond_reason(found, truth):
        return found
    flips = truth.settled and found.trusted_relative_error <= ILL_CONDITIONED
    if flips and found.is_of_other_class:
        return found
    certain = judge_choice(candidate.detach().to(truth.value.device), truth)
    if certain is not None and certain.differing:
        return found
    return replace(found, passed=True, share=0.0, undecided=truth.ill_conditioned)


def _beyond_reason(found: Comparison, truth: OutputTruth) -> bool:
    """Whether the error of an ill-conditioned output cannot be that of a correct kernel.

    The trusted error is more than a quarter of the truth there, so the bound is more than 256
    times the output itself: nothing that amplifies rounding reaches it, since its error ends where
    the output's own range does. What reaches it left out the term that another one cancels.
    """
    allowed = _BEYOND_REASON * found.trusted_relative_error
    return truth.ambiguous_share <= AMBIGUOUS_CAP and found.relative_error > allowed > 0


def measure(candidate: Tensor, truth: OutputTruth) -> Comparison:
    """Hold one output against truth, well-conditioned or not."""
    shape, declared, wrong = tuple(candidate.shape), tuple(truth.value.shape), ""
    if shape != declared:
        wrong = f"output '{truth.name}' has shape {shape}, expected {declared}"
    elif candidate.dtype != special.torch_dtype(truth.dtype):
        kind = str(candidate.dtype).removeprefix("torch.")
        wrong = f"output '{truth.name}' is {kind}, expected {truth.dtype.value}"
    if wrong:
        return Comparison(output=truth.name, passed=False, share=math.inf, mismatch=wrong)
    candidate = candidate.detach().to(truth.value.device)
    if truth.value.numel() == 0:
        return Comparison(output=truth.name, passed=True, share=0.0)
    if truth.yardsticks is None:
        return _compare_exact(candidate, truth)
    sticks = truth.yardsticks
    sums, matrix = output_sums(candidate, truth)
    close = details.worst_element(matrix, sums, truth)
    found = torch.cat([close, measure_groups(sums, truth, sticks)]).tolist()  # waits for the device
    (peak, worst, flat, got, expected), rest = found[: len(close)], found[len(close) :]
    index, statistics = unravel(int(flat), truth.value.shape), []
    if not peak < MISMATCH:
        seen = details.inspect_classes(matrix, truth)
        worst = seen.peak
        index, got, expected = _place(candidate, truth, seen.worst)
        if seen.differing:
            group = "elements whose class (NaN, +inf, -inf, finite) differs from truth's"
            count = float(seen.differing)
            statistics.append(Statistic(name="class", value=count, limit=0.0, group=group))
    if math.isinf(worst):
        group = "elements whose exact answer is 0"
        statistics.append(Statistic(name="exact", value=1.0, limit=0.0, group=group))
    limit = limit_w(truth.value.numel()) * truth.element_room
    statistics.append(Statistic(name="W", value=worst, limit=limit, group="whole tensor"))
    judged = 2 * len(_JUDGED) * len(sticks.kinds)
    statistics += _group_statistics(rest[:judged], truth, sticks)
    energy, _, gain, bias, trusted, signal, *hits = rest[judged:]
    share = max(statistic.share for statistic in statistics)
    if math.isnan(share):  # cannot be: every sum is masked; fail closed
        share = math.inf
    square = truth.unit**2
    groups = zip(HIT_LABELS, *(hits[at : at + 4] for at in (0, 4, 8)), strict=False)  # or none
    return Comparison(
        output=truth.name,
        passed=share <= 1.0,
        share=share,
        statistics=tuple(statistics),
        worst_index=index,
        got=got,
        expected=expected,
        relative_error=math.sqrt(energy * square / signal) if signal > 0 else 0.0,
        trusted_relative_error=math.sqrt(trusted * square / signal) if signal > 0 else 0.0,
        groups={
            label: (math.sqrt(own * square / whole), math.sqrt(allowed * square / whole))
            for label, own, allowed, whole in groups
            if whole > 0
        },
        bias=(
            Bias(kind="gain", projection=gain, trusted=sticks.gain),
            Bias(kind="bias", projection=bias, trusted=sticks.bias),
        ),
        error_map=details.error_map(matrix, truth) if share > 1.0 else None,
        ambiguous_share=truth.ambiguous_share,
    )


def output_sums(candidate: Tensor, truth: OutputTruth) -> tuple[Sums, Matrices]:
    """Return the sums of one floating output and its matrix views (candidate, truth, scale).

    CUDA uses the fused Triton kernel for large outputs where Triton is installed, else plain
    torch in chunks.
    """
    assert truth.scale is not None
    shape = matrix_shape(truth.value.shape, truth.hits is not None)
    parts = (candidate, truth.value, truth.scale)
    one, two, three = (tensor.contiguous().view(shape) for tensor in parts)
    sums = eager_sums
    if two.is_cuda:
        with suppress(ImportError):  # triton is an extra
            from cuassay.oracle.compare import triton_sums

            if triton_sums.supports(candidate, truth):
                sums = triton_sums.fused_sums
    return sums(one, two, three, truth), (one, two, three)


def _compare_exact(candidate: Tensor, truth: OutputTruth) -> Comparison:
    result = judge_exact(candidate, truth)
    share = max(statistic.share for statistic in result.statistics)
    index, got, expected = _place(candidate, truth, result.worst)
    return Comparison(
        output=truth.name,
        passed=share <= 1.0,
        share=share,
        statistics=result.statistics,
        worst_index=index,
        got=got,
        expected=expected,
        relative_error=result.differing / truth.value.numel(),
        ambiguous_share=truth.ambiguous_share,
    )


def measure_groups(sums: Sums, truth: OutputTruth, sticks: Yardsticks) -> Tensor:
    """Return the worst of each statistic and its group by kind of group, then what reports tell.

    A float64 vector: for each kind four values, then for each kind four places; the whole tensor's
    four sums, the trusted energy and the signal; by hit groups the energy, trusted energy and
    signal. Nothing waits for the device.
    """
    shape, hits = truth.value.shape, truth.hits
    parts = [
        regroup(sums.rows, sums.columns, kind, shape=shape, hits=hits) for kind in sticks.kinds
    ]
    whole = torch.cat(parts, 1)
    size = (whole[:2] / sticks.base).sqrt_().div_(sticks.common)
    way = (whole[2:].abs() / sticks.norm).sub_(sticks.room).clamp_min_(0.0).div_(sticks.trust)
    scores = torch.where(sticks.judged, torch.cat([size, way]), -1.0)  # -1: not judged
    worst = [part.max(1) for part in torch.split(scores, list(sticks.sizes), 1)]
    told = [whole[:, 0], sticks.energy[:1], sticks.signal[:1]]
    if sticks.kinds[-1].kind == "hits":
        told += [one[-len(HIT_LABELS) :] for one in (whole[0], sticks.energy, sticks.signal)]
    values, places = [one.values for one in worst], [one.indices.double() for one in worst]
    return torch.cat([*values, *places, *told])


def _group_statistics(
    numbers: Sequence[float], truth: OutputTruth, sticks: Yardsticks
) -> Iterator[Statistic]:
    """Yield the verdict on every kind of group from values and places of `measure_groups`."""
    judged = [(kind, *one) for kind in sticks.kinds for one in _JUDGED]
    values, places = numbers[: len(judged)], numbers[len(judged) :]
    for (kind, name, limit, way), value, place in zip(judged, values, places, strict=True):
        if value >= 0:
            group = group_name(kind, int(place), truth.value.shape) + way
            yield Statistic(name=name, value=value, limit=limit, group=group)


def _place(
    candidate: Tensor, truth: OutputTruth, flat: int | None
) -> tuple[tuple[int, ...], float, float]:
    if flat is None:
        return (), math.nan, math.nan
    index = unravel(flat, truth.value.shape)
    got, want = candidate[index], truth.value[index]
    if want.dtype.is_floating_point:
        got, want = got.double(), want.double()
    return index, float(got.item()), float(want.item())

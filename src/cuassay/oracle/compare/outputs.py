"""Compare a candidate's output with truth: every statistic over every group, in few passes.

`compare` never raises for what a candidate returned: a wrong shape or dtype gives a failed
Comparison whose `mismatch` says so. Limits and their calibration: `compare_groups` and
benchmarks/calibrate.py. Extra memory: row and column sums (a few bytes per row of 1024
elements) and, for a candidate that is not contiguous, one copy of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from cuassay.model.outcome import ErrorMap
from cuassay.model.precision import Precision
from cuassay.oracle import special
from cuassay.oracle.benchmark_rule import matched_ratio
from cuassay.oracle.compare import details as compare_slow
from cuassay.oracle.compare.details import Matrices
from cuassay.oracle.compare.exact import judge_choice, judge_exact
from cuassay.oracle.compare.groups import Statistic, limit_w
from cuassay.oracle.compare.judge import measure_groups, read_groups
from cuassay.oracle.compare.places import unravel
from cuassay.oracle.compare.sums import MISMATCH, Sums, eager_sums, matrix_shape
from cuassay.oracle.truth.types import OutputTruth, TrustedBias

__all__ = ["Bias", "Comparison", "Statistic", "compare", "matched_ratio", "measure", "output_sums"]

SumsFunction: TypeAlias = Callable[[Tensor, Tensor, Tensor, OutputTruth], Sums]


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


def compare(candidate: Tensor, truth: OutputTruth) -> Comparison:
    """Judge one output. `candidate` may live on any device and have any layout.

    Of an ill-conditioned output only what is certain is judged: its shape, its type, and
    whether places along an axis are places at all.
    """
    found = measure(candidate, truth)
    if not truth.ill_conditioned or found.mismatch:
        return found
    certain = judge_choice(candidate.detach().to(truth.value.device), truth)
    if certain is not None and certain.differing:
        return found
    return replace(found, passed=True, share=0.0, undecided=truth.ill_conditioned)


def measure(candidate: Tensor, truth: OutputTruth) -> Comparison:
    """Hold one output against truth, well-conditioned or not."""
    wrong = _contract(candidate, truth)
    if wrong:
        return Comparison(output=truth.name, passed=False, share=math.inf, mismatch=wrong)
    candidate = candidate.detach().to(truth.value.device)
    if truth.value.numel() == 0:
        return Comparison(output=truth.name, passed=True, share=0.0)
    if truth.scale is None:
        return _compare_exact(candidate, truth)
    return _compare_floating(candidate, truth)


def _contract(candidate: Tensor, truth: OutputTruth) -> str:
    want_shape, want_dtype = tuple(truth.value.shape), special.torch_dtype(truth.dtype)
    if tuple(candidate.shape) != want_shape:
        return f"output '{truth.name}' has shape {tuple(candidate.shape)}, expected {want_shape}"
    if candidate.dtype != want_dtype:
        got = str(candidate.dtype).removeprefix("torch.")
        return f"output '{truth.name}' is {got}, expected {truth.dtype.value}"
    return ""


def output_sums(candidate: Tensor, truth: OutputTruth) -> tuple[Sums, Matrices]:
    """Return the sums of one floating output and its matrix views (candidate, truth, scale).

    CUDA uses the fused Triton kernel for large outputs where Triton is installed, else plain
    torch in chunks.
    """
    assert truth.scale is not None
    shape = matrix_shape(truth.value.shape, truth.hits is not None)
    parts = (candidate, truth.value, truth.scale)
    one, two, three = (tensor.contiguous().view(shape) for tensor in parts)
    sums = _fused_path(candidate, truth) if two.is_cuda else eager_sums
    return sums(one, two, three, truth), (one, two, three)


def _fused_path(candidate: Tensor, truth: OutputTruth) -> SumsFunction:
    try:
        from cuassay.oracle.compare import triton_sums as compare_triton
    except ImportError:  # triton is an extra
        return eager_sums
    large = candidate.numel() >= compare_triton.LEAST
    fused = large and compare_triton.supports(candidate, truth)
    return compare_triton.fused_sums if fused else eager_sums


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


def _compare_floating(candidate: Tensor, truth: OutputTruth) -> Comparison:
    sums, matrix = output_sums(candidate, truth)
    close = compare_slow.worst_element(matrix, sums, truth)
    found = torch.cat([close, measure_groups(sums, truth)]).tolist()  # waits for the device
    peak, value, flat, got, expected = found[: len(close)]
    judged = read_groups(found[len(close) :], truth)
    if peak < MISMATCH:
        statistics = _elements(value, truth)
        index = unravel(int(flat), truth.value.shape)
    else:
        statistics, worst = _inspected(matrix, truth)
        index, got, expected = _place(candidate, truth, worst)
    statistics += judged.statistics
    share = max((statistic.share for statistic in statistics), default=0.0)
    if math.isnan(share):  # cannot be: every sum is masked; fail closed
        share = math.inf
    signal = judged.signal
    return Comparison(
        output=truth.name,
        passed=share <= 1.0,
        share=share,
        statistics=statistics,
        worst_index=index,
        got=got,
        expected=expected,
        relative_error=math.sqrt(judged.energy / signal) if signal > 0 else 0.0,
        trusted_relative_error=math.sqrt(judged.trusted / signal) if signal > 0 else 0.0,
        groups=judged.hit_errors,
        bias=tuple(
            Bias(kind=kind, projection=projection, trusted=trusted)
            for kind, projection, trusted in (
                ("gain", judged.gain, truth.gain),
                ("bias", judged.bias, truth.bias),
            )
            if trusted is not None
        ),
        error_map=compare_slow.error_map(matrix, truth) if share > 1.0 else None,
        ambiguous_share=truth.ambiguous_share,
    )


def _elements(worst: float, truth: OutputTruth) -> tuple[Statistic, ...]:
    """Return the statistics of single elements, given the largest |z|."""
    found: list[Statistic] = []
    if math.isinf(worst):
        group = "elements whose exact answer is 0"
        found.append(Statistic(name="exact", value=1.0, limit=0.0, group=group))
    limit = limit_w(truth.value.numel()) * truth.element_room
    found.append(Statistic(name="W", value=worst, limit=limit, group="whole tensor"))
    return tuple(found)


def _inspected(matrix: Matrices, truth: OutputTruth) -> tuple[tuple[Statistic, ...], int]:
    """Return the statistics of single elements where classes may differ, and the worst place."""
    alternative = truth.alternative
    if alternative is not None:
        alternative = alternative.view(matrix[1].shape)
    result = compare_slow.inspect_classes(matrix, alternative, truth)
    statistics = _elements(result.peak, truth)
    if not result.differing:
        return statistics, result.peak_at
    group = "elements whose class (NaN, +inf, -inf, finite) differs from truth's"
    differing = Statistic(name="class", value=float(result.differing), limit=0.0, group=group)
    return (differing, *statistics), result.peak_at if result.first is None else result.first


def _place(
    candidate: Tensor, truth: OutputTruth, flat: int | None
) -> tuple[tuple[int, ...], float, float]:
    if flat is None:
        return (), math.nan, math.nan
    index = unravel(flat, truth.value.shape)
    got, want = candidate[index], truth.value[index]
    if not want.dtype.is_floating_point:
        return index, float(got.item()), float(want.item())
    return index, float(got.double().item()), float(want.double().item())

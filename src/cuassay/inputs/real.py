"""Regimes of real numbers. Each returns the working precision; domain and dtype come after.

The regime decides more than the tolerance does: a wrong epsilon shows only on data near
1e-3, a missing soft-cap only on large logits, low-precision accumulation best on zero-mean
terms, its damage on terms of one sign.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from cuassay.inputs.request import FillFunction, Request
from cuassay.model.dtype import DType, FloatFormat

_ROWS_WITH_ZERO = 4  # of fewer rows one of zeros is too much
_HUGE_SHARE = 0.25  # of the largest finite value, so that a sum of two stays finite


def normal(request: Request) -> torch.Tensor:
    """`mean` + `scale` * N(0, 1)."""
    return request.normal().mul_(request.number("scale", 1.0)).add_(request.number("mean", 0.0))


def leading_ones(request: Request) -> torch.Tensor:
    """Ones in the first half of the elements, `mean` + `scale` * N(0, 1) in the rest."""
    raw = normal(request)
    raw.view(-1)[: raw.numel() // 2] = 1.0
    return raw


def among(request: Request) -> torch.Tensor:
    """`mean` + `scale` * N(0, 1), and in half of the elements one of `values` (1)."""
    given = request.values() if "values" in request.parameters else (1.0,)
    values = torch.tensor(given, device=request.device, dtype=request.work)
    chosen = values[request.integers(len(values))]
    return torch.where(request.integers(2).bool(), chosen, normal(request))


def same_sign(request: Request) -> torch.Tensor:
    """`scale` * (|N(0, 1)| + `floor`): no cancellation, so rounding of sums is a bias."""
    raw = request.normal().abs_().add_(request.number("floor", 0.0))
    return raw.mul_(request.number("scale", 1.0))


def offset(request: Request) -> torch.Tensor:
    """`mean` + `scale` * N(0, 1) with a mean that dominates (3 unless given)."""
    return request.normal().mul_(request.number("scale", 1.0)).add_(request.number("mean", 3.0))


def uniform(request: Request) -> torch.Tensor:
    """Uniform in [`low`, `high`), by default [-1, 1)."""
    low, high = request.number("low", -1.0), request.number("high", 1.0)
    return request.uniform().mul_(high - low).add_(low)


def lognormal(request: Request) -> torch.Tensor:
    """`scale` * exp(`sigma` * N(0, 1)) with random signs unless `signed` is 0."""
    magnitude = request.normal().mul_(request.number("sigma", 1.0)).exp_()
    magnitude.mul_(request.number("scale", 1.0))
    return magnitude * _signs(request) if request.number("signed", 1.0) else magnitude


def cauchy(request: Request) -> torch.Tensor:
    """`scale` times a Cauchy variable cut at `cut` (1e4): rare terms dominate every sum."""
    cut = request.number("cut", 1e4)
    raw = torch.tan((request.uniform() - 0.5) * math.pi)
    return raw.clamp_(-cut, cut).mul_(request.number("scale", 1.0))


def outlier(request: Request) -> torch.Tensor:
    """Normal with a few channels of the last axis `factor` (100) times larger."""
    raw = normal(request)
    if not request.shape:
        return raw
    columns = request.shape[-1]
    count = max(1, round(columns * request.number("share", 0.01))) if columns else 0
    chosen = request.permutation(columns)[:count]
    gain = torch.ones(columns, device=request.device, dtype=request.work)
    gain[chosen] = request.number("factor", 100.0)
    return raw.mul_(gain)


def massive(request: Request) -> torch.Tensor:
    """Normal with a few channels of the last axis near `value` (60) in every row.

    So are hidden states of language models: a channel is as large for each token.
    """
    raw = normal(request)
    if not request.shape or not request.count:
        return raw
    columns = request.shape[-1]
    chosen = request.permutation(columns)[: max(1, round(columns * request.number("share", 0.01)))]
    raw[..., chosen] = raw[..., chosen].mul(0.05).add(1.0).mul(request.number("value", 60.0))
    return raw


def near_constant(request: Request) -> torch.Tensor:
    """Each row a constant plus a perturbation of `relative` (1e-3): variance cancels."""
    level = request.normal(_row_shape(request)).mul_(2.0).add_(request.number("level", 5.0))
    noise = request.normal().mul_(request.number("relative", 1e-3))
    return (1.0 + noise) * level


def large_mean_small_variance(request: Request) -> torch.Tensor:
    """`mean` (100) + `scale` (1) * N(0, 1): E[x^2] - E[x]^2 loses digits."""
    return request.normal().mul_(request.number("scale", 1.0)).add_(request.number("mean", 100.0))


def cancelling(request: Request) -> torch.Tensor:
    """First half random, second half its negative along `axis` (0), plus a small remainder.

    Partial sums grow and the exact sum is near zero: error relative to the result is large.
    """
    if not request.shape:
        return normal(request)
    axis = int(request.number("axis", 0.0)) % len(request.shape)
    half = request.shape[axis] // 2
    raw = same_sign(request)
    raw.narrow(axis, half, half).copy_(-raw.narrow(axis, 0, half))
    return raw.add_(request.normal().mul_(1e-2 * request.number("scale", 1.0)))


def alternating(request: Request) -> torch.Tensor:
    """Same-sign numbers whose sign alternates along the last axis."""
    raw = same_sign(request)
    if request.shape:
        raw[..., 1::2].neg_()
    return raw


def halved(request: Request) -> torch.Tensor:
    """Normal in the second half of the last axis, zero in the first; `late` 1 turns them round."""
    raw = normal(request)
    if request.shape:
        half = request.shape[-1] // 2
        late = request.number("late", 0.0)
        raw.narrow(-1, request.shape[-1] - half if late else 0, half).zero_()
    return raw


def ones(request: Request) -> torch.Tensor:
    """All ones: sums are exact counts."""
    return request.constant(1.0)


def zeros(request: Request) -> torch.Tensor:
    """All zeros."""
    return request.constant(0.0)


def constant(request: Request) -> torch.Tensor:
    """All equal to `value` (0.5)."""
    return request.constant(request.number("value", 0.5))


def small_integers(request: Request) -> torch.Tensor:
    """Integers in [-`limit`, `limit`] (3): sums and products are exact in float32."""
    limit = int(request.number("limit", 3.0))
    return (request.integers(2 * limit + 1) - limit).to(request.work)


def powers_of_two(request: Request) -> torch.Tensor:
    """Signed powers of two, exponents in [-`span`, `span`] (3): products are exact."""
    span = int(request.number("span", 3.0))
    exponent = (request.integers(2 * span + 1) - span).to(request.work)
    return torch.exp2(exponent) * _signs(request)


def one_hot(request: Request) -> torch.Tensor:
    """One element of each row is `value` (1), the others zero."""
    raw = request.constant(0.0)
    if not request.shape or not request.count:
        return raw.fill_(request.number("value", 1.0)) if not request.shape else raw
    where = request.integers(request.shape[-1], (*request.shape[:-1], 1))
    return raw.scatter_(-1, where, request.number("value", 1.0))


def mixed_scale(request: Request) -> torch.Tensor:
    """Rows of sizes from `low` (1e-3) to `high` (1e2): small rows must not hide.

    A share `zero` (0) of the rows, where it is given at least one of four or more, holds zeros.
    The last element of a row is `late` (0: as drawn) times as large, or, of long rows, so large
    that its square is a sixteenth of all: a sum that ends before it shows.
    """
    low, high = math.log(request.number("low", 1e-3)), math.log(request.number("high", 1e2))
    rows = request.uniform(_row_shape(request)).mul_(high - low).add_(low).exp_()
    drawn = request.normal().mul_(rows)
    if (late := request.number("late", 0.0)) and drawn.dim() > 1 and drawn.numel():
        drawn[..., -1] *= max(late, math.sqrt(drawn.shape[-1]) / 4.0)
    share, count = request.number("zero", 0.0), rows.numel()
    if share and count >= _ROWS_WITH_ZERO:
        empty = torch.zeros_like(rows, dtype=torch.bool)
        empty.view(-1)[request.permutation(count)[: max(1, round(count * share))]] = True
        drawn.masked_fill_(empty, 0.0)
    return drawn


def tiny(request: Request) -> torch.Tensor:
    """Magnitudes around the smallest normal number of the dtype, subnormals included."""
    smallest = _format(request).smallest_normal
    return request.normal().mul_(smallest * request.number("scale", 4.0))


def huge(request: Request) -> torch.Tensor:
    """Finite numbers up to `share` (0.25) of the largest finite value, uniform in magnitude."""
    limit = _format(request).maximum * request.number("share", _HUGE_SHARE)
    return (request.uniform().mul_(2.0).sub_(1.0)).mul_(limit)


def sorted_values(request: Request) -> torch.Tensor:
    """Normal numbers sorted along the last axis, descending where `descending` is 1."""
    raw = normal(request)
    if not request.shape:
        return raw
    return raw.sort(dim=-1, descending=bool(request.number("descending", 0.0))).values


def late_peak(request: Request) -> torch.Tensor:
    """Normal, with one value of `value` (50) at the end of each row: beyond sampled prefixes."""
    raw = normal(request)
    if request.shape and request.count:
        raw[..., -1] = request.number("value", 50.0)
    return raw


def levels(request: Request) -> torch.Tensor:
    """Rows each near a number of its own: evenly spread from `low` (2) to `high` (20), shuffled.

    A row's elements lie within 1 % or so of it.
    """
    low, high = request.number("low", 2.0), request.number("high", 20.0)
    shape = _row_shape(request)
    count = math.prod(shape)
    places = (request.permutation(count) + request.uniform((1,))) / max(count, 1)
    level = places.to(request.work).mul_(high - low).add_(low).view(shape)
    return request.normal().mul_(0.01).add_(1.0).mul_(level)


def confident(request: Request) -> torch.Tensor:
    """Normal logits whose last column takes a soft-max probability of 0.7 to 0.9999.

    Differences such as p - 1 then cancel. exp of a normal number has mean e^0.5, so the
    others sum to about n e^0.5.
    """
    raw = request.normal()
    if request.shape and request.count:
        margin = request.uniform(request.shape[:-1]).mul_(8.0).add_(1.0)
        raw[..., -1] = margin + math.log(request.shape[-1]) + 0.5
    return raw


def leading(request: Request) -> torch.Tensor:
    """Rows of nearly equal numbers of which one is larger by 1 to 25."""
    raw = request.normal().mul_(0.01)
    if not request.shape or not request.count:
        return raw
    margin = request.uniform((*request.shape[:-1], 1)).mul_(24.0).add_(1.0)
    where = request.integers(request.shape[-1], (*request.shape[:-1], 1))
    return raw.scatter_add_(-1, where, margin)


def low_bits(request: Request) -> torch.Tensor:
    """Information in the last bits of the dtype: 1 + k * 2**-(precision-1), k in 0..7."""
    spacing = 2.0 * _format(request).unit_roundoff
    return request.integers(8).to(request.work).mul_(spacing).add_(1.0)


def patchwork(request: Request) -> torch.Tensor:
    """Rows of many kinds, each kind as often, in random order.

    Plain, large, dust, far below zero, nearly constant far from the others, one peak among zeros, a
    confident one, equal elements. Fewer rows than kinds have those from number `first` (0) on. A
    vector is one row.
    """
    if not request.shape or not request.count:
        return normal(request)
    rows = request.count // request.shape[-1]
    kinds = (request.permutation(rows) + int(request.number("first", 0.0))) % len(PATCHES)
    raw = request.constant(0.0).view(rows, -1)
    for number, (kind, parameters) in enumerate(PATCHES):
        chosen = (kinds == number).nonzero().view(-1)
        shape = (len(chosen), request.shape[-1])
        raw[chosen] = REAL[kind](replace(request, shape=shape, parameters=parameters))
    return raw.view(request.shape)


def explicit(request: Request) -> torch.Tensor:
    """The numbers of parameter `values`, row-major, repeated to the tensor's size."""
    values = torch.tensor(request.values(), dtype=request.work, device=request.device)
    repeats = -(-request.count // len(values)) if request.count else 0
    return values.repeat(repeats)[: request.count].reshape(request.shape)


def _format(request: Request) -> FloatFormat:
    """Return the constants of the dtype; packed 4-bit pairs borrow those of 8 bits."""
    packed = request.spec.dtype is DType.FLOAT4_E2M1FN_X2
    return (DType.FLOAT8_E4M3FN if packed else request.spec.dtype).float_format


def _signs(request: Request) -> torch.Tensor:
    return request.integers(2).mul_(2).sub_(1).to(request.work)


def _row_shape(request: Request) -> tuple[int, ...]:
    """One number a row: the shape with the last axis of size 1 (first axis for vectors)."""
    return (*request.shape[:-1], 1) if request.shape else ()


REAL: dict[str, FillFunction] = {
    "normal": normal,
    "same_sign": same_sign,
    "offset": offset,
    "uniform": uniform,
    "lognormal": lognormal,
    "cauchy": cauchy,
    "outlier": outlier,
    "massive": massive,
    "near_constant": near_constant,
    "large_mean_small_variance": large_mean_small_variance,
    "cancelling": cancelling,
    "alternating": alternating,
    "halved": halved,
    "ones": ones,
    "zeros": zeros,
    "constant": constant,
    "small_integers": small_integers,
    "powers_of_two": powers_of_two,
    "one_hot": one_hot,
    "mixed_scale": mixed_scale,
    "tiny": tiny,
    "huge": huge,
    "sorted": sorted_values,
    "late_peak": late_peak,
    "confident": confident,
    "leading": leading,
    "levels": levels,
    "low_bits": low_bits,
    "explicit": explicit,
    "patchwork": patchwork,
    "leading_ones": leading_ones,
    "among": among,
}

PATCHES: tuple[tuple[str, dict[str, float]], ...] = (
    ("normal", {}),
    ("normal", {"scale": 1e-10}),
    ("normal", {"scale": 300.0}),
    ("normal", {"mean": -25.0}),
    ("near_constant", {"level": 60.0}),
    ("one_hot", {"value": 20.0}),
    ("confident", {}),
    ("constant", {}),
    ("halved", {}),
    ("halved", {"late": 1.0}),
    ("sorted", {}),
)

# Fills whose very values are the point: a bounded domain clips them, it never reshapes them.
EXACT = frozenset(
    {"ones", "zeros", "constant", "small_integers", "powers_of_two", "one_hot", "explicit", "among"}
)

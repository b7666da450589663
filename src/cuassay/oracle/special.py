"""Special values and the grid of a floating format: classes, half spacings, flush and overflow.

Rules (each from a fault of an earlier rule that let wrong kernels pass or accused right ones):

- NaN, +inf, -inf and finite are classes; a candidate shows truth's class, or the class that
  the reference as written shows *where that differs from truth's*.
- Masks come before arithmetic and before every division: NaN times 0 is NaN.
- Errors up to the least normal number (float32, bfloat16) count as zero: flush-to-zero is
  legal. float16 keeps its subnormals, so only 2**-24 is free there.
- Beyond the largest finite number infinity is required; close to it either is accepted.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cuassay.model.dtype import DType, FloatFormat

_EXPONENT_BITS = 0x7F800000  # of float32: masked, it is the power of two below |x|
FINITE, NAN, PLUS_INF, MINUS_INF = 0, 1, 2, 3
BOUNDARY_SCALES = 8.0  # achievable errors from the largest finite value where inf is accepted


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return torch's dtype of the same name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found


def form_of(dtype: DType) -> FloatFormat:
    """Return the constants of a floating format. KeyError for integers and packed pairs."""
    return dtype.float_format


def classes(values: Tensor) -> Tensor:
    """Return FINITE, NAN, PLUS_INF or MINUS_INF per element, as int8 of the same shape."""
    out = torch.zeros(values.shape, dtype=torch.int8, device=values.device)
    out[torch.isnan(values)] = NAN
    infinite = torch.isinf(values)
    out[infinite & (values > 0)] = PLUS_INF
    out[infinite & (values < 0)] = MINUS_INF
    return out


def all_finite(values: Tensor) -> bool:
    """Whether no element is NaN or infinite: one pass, no mask."""
    if values.numel() == 0 or not values.dtype.is_floating_point:
        return True
    low, high = torch.stack(torch.aminmax(values)).tolist()
    return math.isfinite(low) and math.isfinite(high)


def half_spacing(values: Tensor, dtype: DType) -> Tensor:
    """Return half the distance between neighbours of `dtype` at each value.

    float32 for 16- and 32-bit types (0 where it underflows: errors there flush anyway), float64
    for float64. Subnormals and zero get half the subnormal spacing, infinities that of the
    largest binade.
    """
    form = form_of(dtype)
    if dtype is DType.FLOAT64:
        exponent = torch.frexp(values)[1].double()  # |x| = m * 2**exponent, m in [0.5, 1)
        return torch.exp2(exponent.clamp_(-1021.0, 1024.0).sub_(form.precision + 1))
    power = (values.float().view(torch.int32) & _EXPONENT_BITS).view(torch.float32)
    power.clamp_(form.smallest_normal, 2.0**127)
    return power.mul_(2.0**-form.precision)


def flush_threshold(dtype: DType) -> float:
    """Return the largest absolute error that counts as zero: flush-to-zero is legal."""
    form = form_of(dtype)
    if dtype in (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT64):
        return form.smallest_normal
    return form.smallest_subnormal


def boundary_slack(dtype: DType) -> float:
    """Return u * max: half the spacing below the largest finite value, about."""
    return form_of(dtype).unit_roundoff * form_of(dtype).maximum


def settle_overflow(value: Tensor, scale: Tensor, dtype: DType) -> Tensor:
    """Return truth as `dtype` can show it: what lies beyond its range becomes infinity.

    A truth within BOUNDARY_SCALES * scale + u * max above the largest finite value becomes
    that value, so that a candidate may show either. float64 in, float64 out. What lies within
    the range stays.
    """
    top = form_of(dtype).maximum
    slack = scale.double().abs() * BOUNDARY_SCALES + boundary_slack(dtype)
    finite = torch.isfinite(value)
    excess = torch.where(finite, value.abs() - top, 0.0)
    settled = torch.where((excess > 0) & (excess <= slack), value.sign() * top, value)
    return torch.where(finite & (excess > slack), value.sign() * torch.inf, settled)


def near_limit(value: Tensor, scale: Tensor, dtype: DType) -> Tensor:
    """Whether infinity of truth's sign is accepted: truth is close to the largest finite."""
    edge = form_of(dtype).maximum - boundary_slack(dtype)
    edge_here = edge - scale.double().abs() * BOUNDARY_SCALES
    return torch.isfinite(value) & (value.abs() >= edge_here)


def ordered_codes(values: Tensor) -> Tensor:
    """Return int64 codes in which neighbours of an 8-bit type differ by one.

    For float8 the bits are sign and magnitude: magnitude, negated where the sign is set (both
    zeros get 0). Integers are their own codes.
    """
    if not values.dtype.is_floating_point:
        return values.to(torch.int64)
    bits = values.contiguous().view(torch.int8).to(torch.int64)
    return torch.where(bits < 0, -(bits & 0x7F), bits)

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

import torch
from torch import Tensor

from cuassay.model.dtype import DType

FINITE, NAN, PLUS_INF, MINUS_INF = 0, 1, 2, 3
CLASS_NAMES = ("finite", "NaN", "+inf", "-inf")
BOUNDARY_SCALES = 8.0  # achievable errors from the largest finite value where inf is accepted


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return torch's dtype of the same name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found


def dtype_of(tensor: Tensor) -> DType:
    """Return the model's name of a tensor's dtype. ValueError for one without a name there."""
    return DType(str(tensor.dtype).removeprefix("torch."))


def classes(values: Tensor) -> Tensor:
    """Return FINITE, NAN, PLUS_INF or MINUS_INF per element, as int8 of the same shape."""
    out = torch.zeros(values.shape, dtype=torch.int8, device=values.device)
    out[torch.isnan(values)] = NAN
    infinite = torch.isinf(values)
    out[infinite & (values > 0)] = PLUS_INF
    out[infinite & (values < 0)] = MINUS_INF
    return out


def half_spacing(values: Tensor, dtype: DType) -> Tensor:
    """Return half the distance between neighbours of `dtype` at each value, as float64.

    Zero and subnormals get half the subnormal spacing; non-finite values get 0.
    """
    form = dtype.format
    finite = torch.isfinite(values)
    clean = torch.where(finite, values.double(), 0.0)
    exponent = torch.frexp(clean.abs())[1].double()  # |x| = m * 2**exponent, m in [0.5, 1)
    least = torch.frexp(torch.tensor(form.smallest_normal, dtype=torch.float64))[1].item()
    exponent = torch.where(clean == 0, float(least), exponent).clamp_min_(float(least))
    half = torch.exp2(exponent.sub_(form.precision + 1))
    return torch.where(finite, half, 0.0)


def flush_threshold(dtype: DType) -> float:
    """Return the largest absolute error that counts as zero: flush-to-zero is legal."""
    form = dtype.format
    if dtype in (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT64):
        return form.smallest_normal
    return form.smallest_subnormal


def boundary_slack(dtype: DType) -> float:
    """Return u * max: half the spacing below the largest finite value, about."""
    return dtype.format.unit_roundoff * dtype.format.maximum


def settle_overflow(value: Tensor, scale: Tensor, dtype: DType) -> Tensor:
    """Return truth as `dtype` can show it: what lies beyond its range becomes infinity.

    A truth within BOUNDARY_SCALES * scale + u * max above the largest finite value becomes
    that value, so that a candidate may show either. float64 in, float64 out.
    """
    top = dtype.format.maximum
    slack = scale.double().abs() * BOUNDARY_SCALES + boundary_slack(dtype)
    finite = torch.isfinite(value)
    excess = torch.where(finite, value.abs() - top, 0.0)
    settled = torch.where((excess > 0) & (excess <= slack), value.sign() * top, value)
    return torch.where(finite & (excess > slack), value.sign() * torch.inf, settled)


def near_limit(value: Tensor, scale: Tensor, dtype: DType) -> Tensor:
    """Whether infinity of truth's sign is accepted: truth is close to the largest finite."""
    edge = dtype.format.maximum - boundary_slack(dtype) - scale.double().abs() * BOUNDARY_SCALES
    return torch.isfinite(value) & (value.abs() >= edge)


def ordered_codes(values: Tensor) -> Tensor:
    """Return int64 codes in which neighbours of an 8-bit type differ by one.

    For float8 the bits are sign and magnitude: magnitude, negated where the sign is set (both
    zeros get 0). Integers are their own codes.
    """
    if not values.dtype.is_floating_point:
        return values.to(torch.int64)
    bits = values.contiguous().view(torch.int8).to(torch.int64)
    return torch.where(bits < 0, -(bits & 0x7F), bits)

"""Bring raw numbers into an input's legal domain and into its dtype's own values."""

from __future__ import annotations

import math
from typing import assert_never

import torch

from cuassay.formats.generated import unlike
from cuassay.inputs.packed import is_packed
from cuassay.inputs.real import EXACT, REAL, zeros
from cuassay.inputs.request import Request
from cuassay.model.case import ALSO, UNSTRUCTURED
from cuassay.model.domain import Domain, Positive, Probability, Real, Structure, Swizzled
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec

_POSITIVE_FAMILY = frozenset(
    {"normal", "same_sign", "offset", "uniform", "alternating", "cancelling", "sorted"}
)
_CORNER = 8  # rows and columns
_OUTWEIGHS = 1.25  # of the largest number of a row, which is divided by its length
_SHARE_OF_OTHERS = 0.25
_TYPICAL = (0.1, 10.0)  # positive inputs such as rstd: consistent in size unless scaled


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return torch's element type of the same name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found


def real_values(kind: str, request: Request, domain: Domain) -> torch.Tensor:
    """Draw a floating tensor of `kind` within `domain`, in the spec's dtype."""
    match domain:
        case Positive() | Swizzled():
            # Log-normal numbers, typical size 0.1 to 10 times `scale`, for the ordinary regimes
            if kind not in _POSITIVE_FAMILY:
                raw = REAL[kind](request).abs_()
            else:
                magnitude = request.normal().mul_(0.5).exp_().clamp_(*_TYPICAL)
                raw = magnitude.mul_(request.number("scale", 1.0))
            return _cast(raw, request.spec.dtype, domain.low, domain.high)
        case Probability():
            axis = domain.axis
            if not request.shape or not request.count:
                probability = request.constant(1.0)
            elif kind == "one_hot":
                hot = zeros(request).movedim(axis, -1)
                where = request.integers(hot.shape[-1], (*hot.shape[:-1], 1))
                probability = hot.scatter(-1, where, 1.0).movedim(-1, axis)
            elif kind == "explicit":
                weights = REAL[kind](request).abs_()
                probability = weights / weights.sum(dim=axis, keepdim=True).clamp_min(1e-30)
            else:
                probability = torch.softmax(REAL[kind](request), dim=axis)
            return _cast(probability, request.spec.dtype, 0.0, 1.0)
        case Real():
            raw = REAL[kind](request)
            if kind not in EXACT:
                raw = _fold(raw, domain.low, domain.high)
            kept = DType(domain.numbers_of) if domain.numbers_of else request.spec.dtype
            drawn = _cast(raw, kept, domain.low, domain.high).to(torch_dtype(request.spec.dtype))
            if UNSTRUCTURED not in request.parameters:
                drawn = structured(domain, drawn)
            return _with_others(drawn, request) if ALSO in request.parameters else drawn
        case _:
            return _cast(REAL[kind](request), request.spec.dtype, None, None)


def _with_others(drawn: torch.Tensor, request: Request) -> torch.Tensor:
    """Return the tensor with the number that ALSO names in a quarter of its elements.

    A row of the last dimension keeps its first one, so that none consists of that number. Every
    second row ends with it: inputs that may hold it do so at one place in the same case.
    """
    chosen = request.uniform() < _SHARE_OF_OTHERS
    if not request.shape:
        return drawn
    chosen.reshape(-1, chosen.shape[-1])[::2, -1:] = True
    chosen[..., :1] = False
    return drawn.masked_fill(chosen, float(str(request.parameters[ALSO])))


def bounded(spec: TensorSpec, value: torch.Tensor) -> torch.Tensor:
    """Return a floating tensor within the bounds and the structure of an input's domain.

    Pairs of 4-bit numbers are legal as they are.
    """
    if not isinstance(spec.domain, Real) or is_packed(value):
        return value
    within = _cast(value.double(), spec.dtype, spec.domain.low, spec.domain.high)
    return structured(spec.domain, narrowed(spec.domain, within))


def narrowed(domain: Domain, value: torch.Tensor) -> torch.Tensor:
    """Return a tensor rounded to the narrower dtype whose numbers its domain says it holds."""
    if isinstance(domain, Real) and domain.numbers_of:
        return value.to(torch_dtype(DType(domain.numbers_of))).to(value.dtype)
    return value


def structured(domain: Domain, value: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the structure that its domain names, made of what is there.

    A symmetric matrix keeps its upper triangle, the others lose what they leave out. A positive
    definite one is symmetric, and its diagonal outweighs each row. A general one is returned as it
    is.
    """
    if not isinstance(domain, Real):
        return value
    match domain.structure:
        case Structure.GENERAL:
            return value
        case Structure.SYMMETRIC:
            above = torch.ones(value.shape[-2:], dtype=torch.bool, device=value.device).triu()
            return torch.where(above, value, value.mT)
        case Structure.POSITIVE_DEFINITE:
            if not value.numel() or not unlike(Structure.POSITIVE_DEFINITE, value):
                return value
            whole = structured(Real(structure=Structure.SYMMETRIC), value)
            largest = whole.abs().amax(-1)
            outweighing = torch.where(largest > 0, largest * _OUTWEIGHS, 1.0)
            return (whole / value.shape[-1]).diagonal_scatter(
                outweighing.to(value.dtype), dim1=-2, dim2=-1
            )
        case Structure.UPPER_TRIANGULAR:
            return value.triu()
        case Structure.LOWER_TRIANGULAR:
            return value.tril()
        case Structure.DIAGONAL:
            return value.triu().tril()
    assert_never(domain.structure)


def structure_of(value: torch.Tensor) -> Structure:
    """Return the closest structure of a tensor's last two dimensions; a general one for 1 x 1."""
    square = value.dim() > 1 and value.shape[-1] == value.shape[-2] > 1 and value.numel() > 0
    if not square or (value.is_floating_point() and value.dtype.itemsize == 1):
        return Structure.GENERAL
    order = (
        Structure.DIAGONAL,
        Structure.UPPER_TRIANGULAR,
        Structure.LOWER_TRIANGULAR,
        Structure.POSITIVE_DEFINITE,
        Structure.SYMMETRIC,
    )
    corner = value[..., :_CORNER, :_CORNER]  # says no of most, and needs no memory
    return next(
        (one for one in order if not any(unlike(one, part) for part in (corner, value))),
        Structure.GENERAL,
    )


def _fold(raw: torch.Tensor, low: float | None, high: float | None) -> torch.Tensor:
    """Mirror numbers at the bounds: legal ones stay bit for bit, none pile up at an edge."""
    if low is not None and high is not None:
        if high <= low:
            return raw.fill_(low)
        span = high - low
        inside = torch.remainder(raw - low, 2.0 * span)
        mirrored = torch.where(inside > span, 2.0 * span - inside, inside).add_(low)
        return torch.where((raw < low) | (raw > high), mirrored, raw)
    if low is not None:
        return torch.where(raw < low, 2.0 * low - raw, raw)
    if high is not None:
        return torch.where(raw > high, 2.0 * high - raw, raw)
    return raw


def _cast(raw: torch.Tensor, dtype: DType, low: float | None, high: float | None) -> torch.Tensor:
    """Clip to the dtype's finite range and to the bounds as the dtype can show them, and cast."""
    if dtype is DType.FLOAT4_E2M1FN_X2:
        # Two codes a byte; every byte is a legal pair, so the magnitudes only pick codes.
        codes = raw.abs().mul_(64.0).nan_to_num_(0.0, posinf=0.0).remainder_(256.0)
        return codes.to(torch.uint8).view(torch.float4_e2m1fn_x2)
    limit = dtype.float_format.maximum
    floor = -limit if low is None else _inward(low, dtype, toward=math.inf)
    ceiling = limit if high is None else _inward(high, dtype, toward=-math.inf)
    return raw.clamp_(max(floor, -limit), min(ceiling, limit)).to(torch_dtype(dtype))


def _inward(bound: float, dtype: DType, *, toward: float) -> float:
    """Return the dtype's number nearest to `bound` that does not lie beyond it."""
    limit = dtype.float_format.maximum
    if not math.isfinite(bound) or abs(bound) >= limit:
        return math.copysign(limit, bound)
    rounded = torch.tensor(bound, dtype=torch.float64).to(torch_dtype(dtype))
    value = float(rounded.double())
    if value == bound or (value > bound) == (toward > bound):
        return value
    if value == 0.0:
        return math.copysign(dtype.float_format.smallest_subnormal, toward)
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    away = 1 if (toward > 0) == (value > 0) else -1  # bit patterns grow with the magnitude
    stepped = (rounded.view(integer) + away).to(integer).view(torch_dtype(dtype))
    return float(stepped.double())

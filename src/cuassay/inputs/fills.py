"""Recipes of tensor values: every fill by name, and `make`, which respects the domain.

A fill draws in float32 (float64 for float64 tensors) on the target device and is cast at
the end, so its values are exactly representable in the tensor's dtype. The same seed on the
same device gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import torch

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.inputs import discrete
from cuassay.inputs.legal import real_values, torch_dtype
from cuassay.inputs.real import REAL
from cuassay.inputs.request import FillFunction, Request
from cuassay.model.axes import evaluate, shape_of
from cuassay.model.case import Fill
from cuassay.model.device import Device
from cuassay.model.domain import (
    Choice,
    Index,
    IntegerRange,
    Lengths,
    Mask,
    Offsets,
    Packed,
    Swizzled,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec

__all__ = ["FILLS", "FillFunction", "Request", "default_fill", "kinds_for", "make"]

FILLS: Mapping[str, FillFunction] = MappingProxyType(
    {**discrete.LENGTHS, **discrete.OFFSETS, **discrete.INDEX, **REAL}
)
_MASKED = -1e9  # what an additive mask adds where float32 or bfloat16 hold it


def family(spec: TensorSpec) -> str:
    """Return which fills apply: real, index, lengths, offsets, mask, integers, packed, choice."""
    match spec.domain:
        case Index():
            return "index"
        case Lengths():
            return "lengths"
        case Offsets():
            return "offsets"
        case Packed():
            return "packed"
        case Mask():
            return "mask"
        case IntegerRange():
            return "integers"
        case Choice():
            return "choice"
    if spec.dtype is DType.BOOL:
        return "mask"
    return "real" if spec.dtype.is_floating else "integers"


def kinds_for(spec: TensorSpec) -> tuple[str, ...]:
    """Return the names of the fills that apply to an input."""
    kinds: Mapping[str, Iterable[str]] = {
        "real": REAL,
        "index": discrete.INDEX,
        "lengths": discrete.LENGTHS,
        "offsets": discrete.OFFSETS,
        "mask": discrete.MASKS,
        "integers": discrete.INTEGERS,
        "packed": discrete.PACKED,
        "choice": discrete.INTEGERS,
    }
    return tuple(kinds[family(spec)])


def default_fill(spec: TensorSpec) -> Fill:
    """Return the plain regime of an input: normal numbers, uniform indices."""
    return Fill(kind="normal" if family(spec) == "real" else "uniform")


def make(
    spec: TensorSpec, fill: Fill, *, sizes: Mapping[str, int], seed: int, device: Device
) -> torch.Tensor:
    """Return a contiguous tensor of spec's shape and dtype, filled by the recipe.

    Raises UnknownNameError for a fill that the input's domain does not know and
    ProblemError for parameters or sizes that contradict the domain.
    """
    legal = kinds_for(spec)
    if fill.kind not in legal:
        raise UnknownNameError(f"fill for {family(spec)} input '{spec.name}'", fill.kind, legal)
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    domain = spec.domain
    limit = evaluate(domain.axis, sizes) if isinstance(domain, Index | Lengths | Offsets) else 0
    request = Request(
        spec=spec,
        shape=shape_of(spec.shape, sizes),
        parameters=fill.parameters,
        generator=generator,
        device=device,
        work=torch.float64 if spec.dtype is DType.FLOAT64 else torch.float32,
        limit=limit,
    )
    return _dispatch(fill.kind, request).contiguous()


def _dispatch(kind: str, request: Request) -> torch.Tensor:
    spec = request.spec
    dtype = torch_dtype(spec.dtype)
    match spec.domain:
        case Index(unique=unique):
            if request.limit < 1 and request.count:
                raise ProblemError(
                    f"index input '{spec.name}' addresses an axis of size {request.limit}; "
                    "an index needs an axis of at least 1"
                )
            drawn = discrete.unique(kind, request) if unique else discrete.INDEX[kind](request)
            return drawn.to(dtype)
        case Lengths():
            return discrete.LENGTHS[kind](request).to(dtype)
        case Offsets():
            return discrete.OFFSETS[kind](request).to(dtype)
        case Packed() as domain:
            return discrete.packed(kind, request, domain, dtype=dtype).to(dtype)
        case Swizzled(low=low, high=high) if not spec.dtype.is_floating:
            bounds = int(low), int(high)
            return discrete.integers(kind, request, *bounds, dtype=dtype).to(dtype)
        case Mask() as domain:
            return mask_of(discrete.keep_mask(kind, request, domain), spec, domain)
        case IntegerRange(low=low, high=high):
            return discrete.integers(kind, request, low, high, dtype=dtype).to(dtype)
        case Choice(values=values):
            positions = discrete.integers(kind, request, 0, len(values) - 1)
            return torch.tensor(values, device=request.device)[positions].to(dtype)
    if spec.dtype is DType.BOOL:
        return discrete.keep_mask(kind, request, Mask())
    if spec.dtype.is_floating:
        return real_values(kind, request, spec.domain)
    return discrete.integers(kind, request, 0, 1, dtype=dtype).to(dtype)


def mask_of(kept: torch.Tensor, spec: TensorSpec, domain: Mask) -> torch.Tensor:
    """Return the mask of an input's dtype that keeps what `kept`, bool, says."""
    dtype = torch_dtype(spec.dtype)
    if not domain.additive:
        return kept.to(dtype)
    blocked = max(_MASKED, -spec.dtype.float_format.maximum)
    return torch.zeros(kept.shape, device=kept.device, dtype=dtype).masked_fill_(~kept, blocked)

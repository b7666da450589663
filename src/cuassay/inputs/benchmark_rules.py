"""How SOL-ExecBench draws a random input: by its name first, else by its dtype.

Written from the rules that its documentation and behaviour show; where it gives no numbers
(state-space names), small ranges are used that keep an exponential finite.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from cuassay.errors import ReferenceError_
from cuassay.inputs.legal import torch_dtype
from cuassay.model.device import Device
from cuassay.model.dtype import DType
from cuassay.model.problem import Scalar, ScalarSpec, TensorSpec

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # magnitudes of 4-bit floats by their code
_RANGES = {"a": (-1.0, 0.0), "a_log": (0.0, 1.0), "a_cumsum": (-1.0, 0.0), "g": (-1.0, 0.0)}
_BINARY_MASKS = r"(.*_)?(key_)?(padding|dropout|binary|token|valid|pad)_mask"
_SOFTMAXED = ("attn_weights", "attention_weights", "routing_weights", "probs")
_Draw = Callable[[tuple[int, ...], Device], torch.Tensor]


def random_tensor(spec: TensorSpec, shape: tuple[int, ...], device: Device) -> torch.Tensor:
    """Return a fresh contiguous tensor of `shape` from torch's global random state.

    Raises ReferenceError_ for float64 without a name rule, as the benchmark cannot draw it.
    """
    rule = _named_rule(spec, shape)
    if rule is not None:
        return rule(shape, device).to(torch_dtype(spec.dtype)).contiguous()
    dtype = spec.dtype
    match dtype:
        case DType.FLOAT64:
            raise ReferenceError_(
                f"the benchmark has no random draw for float64 input '{spec.name}'; "
                "use a custom or safetensors input in the workload"
            )
        case _ if dtype.is_float8:
            return _normal(shape, device).clamp(-2.0, 2.0).to(torch_dtype(dtype))
        case DType.FLOAT4_E2M1FN_X2:
            # Pairs of 4-bit floats, each the code nearest to a standard normal number
            magnitudes = torch.tensor(_E2M1, device=device)
            drawn = _normal((*shape, 2), device)
            borders = (magnitudes[1:] + magnitudes[:-1]) / 2
            codes = torch.bucketize(drawn.abs(), borders) + 8 * (drawn < 0)
            even, odd = codes.unbind(-1)
            return (even + 16 * odd).to(torch.uint8).view(torch_dtype(DType.FLOAT4_E2M1FN_X2))
        case DType.BOOL:
            return _coin(shape, device).to(torch.bool)
    if dtype.is_floating:
        return torch.randn(shape, dtype=torch_dtype(dtype), device=device)
    low, high = _integer_range(dtype)
    return torch.randint(low, high, shape, dtype=torch_dtype(dtype), device=device)


def random_scalar(spec: ScalarSpec) -> Scalar:
    """Return one draw of the scalar's dtype from torch's global random state."""
    if spec.dtype is DType.BOOL:
        return bool(torch.rand(()).item() < 0.5)
    if spec.dtype.is_floating:
        return float(torch.randn(()).item())
    low, high = _integer_range(spec.dtype)
    return int(torch.randint(low, high, ()).item())


def _named_rule(spec: TensorSpec, shape: tuple[int, ...]) -> _Draw | None:
    """Return the draw that the name or description of a floating input asks for, if any."""
    if not spec.dtype.is_floating:
        binary = re.fullmatch(_BINARY_MASKS, spec.name.lower())
        return _coin if binary and spec.dtype is not DType.BOOL else None
    name, text = spec.name.lower(), spec.description.lower()
    if re.fullmatch(r".*norm\d*_weight\d*", name):
        return lambda shape, device: torch.ones(shape, device=device)
    if re.fullmatch(r".*norm\d*_bias\d*", name):
        return lambda shape, device: torch.zeros(shape, device=device)
    square = len(shape) >= 2 and shape[-1] == shape[-2]
    named = name in ("attention_mask", "causal_mask") and square
    is_causal = named or (square and "attention mask" in text and "causal" in text)
    if is_causal:
        return lambda shape, device: _causal(shape, device, spec.dtype)
    if re.fullmatch(_BINARY_MASKS, name):
        return _coin
    if re.fullmatch(r"(.*_)?(cos|sin)(_.*)?", name):
        trigonometric = torch.cos if re.search(r"(^|_)cos(_|$)", name) else torch.sin
        return lambda shape, device: trigonometric(_normal(shape, device).clamp(-3.0, 3.0))
    if re.fullmatch(r"(.*_)?(rstd|std|var|variance)\d*", name):
        return lambda shape, device: _normal(shape, device).abs() + 0.1
    if name in _RANGES:
        low, high = _RANGES[name]
        return lambda shape, device: torch.rand(shape, device=device) * (high - low) + low
    if name in _SOFTMAXED or re.search(r"softmax\b.*\boutput", text):
        return _softmax
    if re.fullmatch(r".*(_weight|_proj)\d*", name) and len(shape) >= 2:
        return lambda shape, device: _normal(shape, device) / shape[-1] ** 0.5
    return None


def _normal(shape: tuple[int, ...], device: Device) -> torch.Tensor:
    return torch.randn(shape, device=device)


def _coin(shape: tuple[int, ...], device: Device) -> torch.Tensor:
    return torch.randint(0, 2, shape, device=device)


def _softmax(shape: tuple[int, ...], device: Device) -> torch.Tensor:
    drawn = _normal(shape, device)
    return torch.softmax(drawn, dim=-1) if shape else torch.sigmoid(drawn)


def _causal(shape: tuple[int, ...], device: Device, dtype: DType) -> torch.Tensor:
    """Return 0 on and below the diagonal and the dtype's smallest number above it."""
    kind = torch_dtype(dtype)
    blocked = torch.full(shape, torch.finfo(kind).min, dtype=kind, device=device)
    return torch.triu(blocked, diagonal=1)


def _integer_range(dtype: DType) -> tuple[int, int]:
    """Return [low, high) of random integers."""
    if dtype is DType.INT8:
        return -128, 128
    return (0, 256) if dtype is DType.UINT8 else (-1024, 1024)

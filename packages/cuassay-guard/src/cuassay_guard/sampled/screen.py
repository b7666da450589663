"""The cheap look at a sampled call: is it as near to the trusted run as accepted calls were?

A few reductions on the device and one short vector to read. The screen never condemns and has
no fixed tolerance: a number beyond what the oracle has accepted for this signature sends the
call to the oracle, which judges and widens the allowance if it accepts (see `Allowance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

STATISTICS = ("class", "element", "row", "column", "gain")
SKETCH = ("absmax", "nonfinite", "hot")
_UNIT = 2.0**-24
_ROOM = 1.25  # a new largest value is worth a look when it is this much larger
_BUCKETS = 4096  # index values are counted modulo this
_WIDER = 2.0  # inputs leave the seen range when a sketch doubles


def contract(got: Sequence[Tensor], want: Sequence[Tensor], names: Sequence[str]) -> str:
    """Return how outputs differ in number, shape or dtype from the trusted ones, or ''."""
    if len(got) != len(want):
        return f"the kernel returned {len(got)} tensors, the trusted operator {len(want)}"
    for name, one, two in zip(names, got, want, strict=True):
        if one.shape != two.shape or one.dtype != two.dtype:
            return f"output '{name}' is {_form(one)}, the trusted operator's is {_form(two)}"
    return ""


def _form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def screened(got: Tensor, want: Tensor) -> Tensor:
    """Return STATISTICS of one output as a float64 vector on its device; waits for nothing.

    class     elements that are NaN or infinite in one and not, or otherwise, in the other
    element   largest |difference| in spacings of the dtype (plus a floor of 4 * 2**-24 of the
              row's root mean square)
    row       largest norm(difference) / norm(trusted) of a vector along the last axis, in eps
    column    the same along all other axes
    gain      |projection of the difference on the trusted output|, in standard units
    """
    if not want.is_floating_point() and not want.is_complex():
        return _padded([(got != want).sum().double()], want.device)
    if want.numel() == 0:
        return _padded([], want.device)
    if want.is_complex():
        got, want = torch.view_as_real(got), torch.view_as_real(want)
    eps = torch.finfo(want.dtype).eps
    wide = torch.float64 if want.dtype == torch.float64 else torch.float32
    got, want = got.to(wide), want.to(wide)
    odd = (got.isnan() != want.isnan()) | (got.isinf() != want.isinf())
    odd |= want.isinf() & (got != want)
    both = got.isfinite() & want.isfinite()
    columns = want.shape[-1] if want.dim() else 1
    error = torch.where(both, got - want, 0.0).reshape(-1, columns)
    value = torch.where(both, want, 0.0).reshape(-1, columns)
    tiny = torch.finfo(want.dtype).tiny
    rms = value.square().mean(1, keepdim=True).sqrt()
    spacing = eps * value.abs() + 4 * min(_UNIT, eps) * rms + tiny
    weight = value / spacing
    found = [
        odd.sum(),
        (error.abs() / spacing).amax(),
        _relative(error, value, 1, tiny).amax() / eps,
        _relative(error, value, 0, tiny).amax() / eps,
        ((error / spacing) * weight).sum().abs() / (weight.square().sum().sqrt() + tiny),
    ]
    return _padded([number.double() for number in found], want.device)


def _relative(error: Tensor, value: Tensor, axis: int, tiny: float) -> Tensor:
    return error.square().sum(axis).sqrt() / (value.square().sum(axis).sqrt() + tiny)


def _padded(numbers: list[Tensor], device: torch.device) -> Tensor:
    zero = torch.zeros((), dtype=torch.float64, device=device)
    return torch.stack([*numbers, *[zero] * (len(STATISTICS) - len(numbers))])


def input_sketch(tensors: Sequence[Tensor]) -> Tensor:
    """Return SKETCH of the inputs, then the largest magnitude of each.

    SKETCH is the largest magnitude, the number of non-finite elements, and the hottest index's
    share. Indices are counted modulo 4096, so that no size has to be known; waits for nothing.
    """
    device = tensors[0].device if tensors else torch.device("cpu")
    largest = odd = hot = torch.zeros((), dtype=torch.float64, device=device)
    each = [torch.zeros((), dtype=torch.float64, device=device) for _ in tensors]
    for index, tensor in enumerate(tensors):
        if not tensor.numel() or tensor.is_complex() or tensor.device != device:
            continue
        if tensor.is_floating_point():
            flat = tensor.double() if tensor.dtype == torch.float64 else tensor.float()
            finite = flat.isfinite()
            odd = odd + (~finite).sum()
            each[index] = torch.where(finite, flat.abs(), 0.0).amax().double()
            largest = torch.maximum(largest, each[index])
        elif tensor.dtype in (torch.int64, torch.int32) and tensor.numel() >= 16:
            places = tensor.reshape(-1).long() % _BUCKETS
            counts = torch.zeros(_BUCKETS, device=device).scatter_add_(
                0, places, torch.ones(places.shape, device=device)
            )
            hot = torch.maximum(hot, (counts.amax() / places.numel()).double())
    return torch.stack([largest, odd, hot, *each])


@dataclass(slots=True)
class Range:
    """What sketches of accepted inputs looked like."""

    seen: list[float] = field(default_factory=list)

    def leaves(self, numbers: Sequence[float]) -> bool:
        """Whether inputs leave the seen range; takes them into it."""
        if not self.seen:
            self.seen = list(numbers)
            return False
        new = any(now > _WIDER * before for now, before in zip(numbers, self.seen, strict=True))
        self.seen = [max(pair) for pair in zip(numbers, self.seen, strict=True)]
        return new


@dataclass(slots=True)
class Allowance:
    """The largest numbers of one signature's screens that the oracle has accepted."""

    limits: dict[tuple[int, str], float] = field(default_factory=dict)

    def beyond(self, numbers: Sequence[Sequence[float]]) -> str:
        """Return the first statistic beyond what was accepted, or '' where there is none."""
        for output, values in enumerate(numbers):
            for name, value in zip(STATISTICS, values, strict=True):
                if not value <= self.limits.get((output, name), 0.0):  # NaN is beyond
                    return name
        return ""

    def accept(self, numbers: Sequence[Sequence[float]]) -> None:
        """Widen to numbers that the oracle accepted; another class is never widened to."""
        for output, values in enumerate(numbers):
            for name, value in zip(STATISTICS, values, strict=True):
                if name != "class":
                    key = (output, name)
                    self.limits[key] = max(self.limits.get(key, 0.0), _ROOM * value)

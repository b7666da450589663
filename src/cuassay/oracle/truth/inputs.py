"""What a case's inputs say about the errors of every kernel on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.model.problem import Scalar

LOW = (torch.bfloat16, torch.float16)
_PAIRS = 256  # neighbours compared along an axis
_LEAST_ELEMENTS = 16  # of fewer, equal ones mean nothing
_REPEATED = 0.02  # share of equal, non-zero neighbours from which inputs repeat
_NEAR = 2.0**-7  # relative distance within which neighbours are nearly equal
_ALIKE = 0.1  # share of such neighbours; independent normal numbers show one in a hundred
_SMALL = 2.0**-62  # squares of smaller numbers are subnormal in float32
_FLUSHED = 2.0**-120  # products of such numbers with others of ordinary size may be subnormal
_WIDE = (torch.float32, torch.bfloat16)  # formats whose subnormals hardware may flush


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTraits:
    """What was found.

    low        an input has 16 bits, so that products may run on tensor cores
    repeats    equal or nearly equal rows or elements, which err alike
    tiny       some number, or its square, is subnormal in float32
    subnormal  an input holds subnormal numbers, which some kernels flush to zero
    """

    low: bool
    repeats: bool
    tiny: bool
    subnormal: bool


def input_traits(inputs: Sequence[Tensor | Scalar]) -> InputTraits:
    """Look at every floating input once."""
    floats = [
        value
        for value in inputs
        if isinstance(value, Tensor)
        and value.dtype in (*LOW, torch.float32, torch.float64)
        and value.numel()
    ]
    if not floats:
        return InputTraits(low=False, repeats=False, tiny=False, subnormal=False)
    found: list[Tensor] = []  # float64 of no axis; all are waited for at once
    for value in floats:
        sizes = value.detach().abs()
        found.append(torch.where(sizes > 0, sizes, torch.inf).amin().double())
    found += [
        _repeats(value.detach(), axis).double()
        for value in floats
        if value.dim() >= 2 and value.numel() >= _LEAST_ELEMENTS
        for axis in (0, value.dim() - 1)
        if value.shape[axis] >= 2
    ]
    on = floats[0].device
    numbers = torch.stack([one.to(on) for one in found]).tolist()
    # The least non-zero magnitudes, infinity where there is none.
    least = [(size, value.dtype) for size, value in zip(numbers, floats, strict=False)]
    return InputTraits(
        low=any(value.dtype in LOW for value in floats),
        repeats=any(numbers[len(floats) :]),
        tiny=any(size < _SMALL for size, _ in least),
        subnormal=any(size < _FLUSHED and dtype in _WIDE for size, dtype in least),
    )


def _repeats(values: Tensor, axis: int) -> Tensor:
    """Whether neighbours along an axis are equal or nearly equal more often than by chance."""
    size = values.shape[axis]
    flat = values.movedim(axis, -1).reshape(-1, size)
    count = flat.shape[0] * (size - 1)
    places = torch.arange(0, count, max(1, count // _PAIRS), device=values.device)
    rows, columns = places // (size - 1), places % (size - 1)
    first, second = flat[rows, columns], flat[rows, columns + 1]
    first, second = first.float(), second.float()
    equal = (first == second) & (first != 0)
    near = (first - second).abs() < _NEAR * first.abs()
    return (equal.float().mean() > _REPEATED) | (near.float().mean() > _ALIKE)


def flushed(inputs: Sequence[Tensor | Scalar], *, sign: float) -> list[Tensor | Scalar]:
    """Return the inputs with subnormal float32 and bfloat16 numbers of one sign set to zero.

    Of one sign: a kernel may flush in its vector loop and not in the tail, and what positive
    and negative numbers would contribute must not cancel in what that is allowed.
    """
    return [
        torch.where((value * sign > 0) & (value.abs() < _FLUSHED), 0.0, value).to(value.dtype)
        if isinstance(value, Tensor) and value.dtype in _WIDE
        else value
        for value in inputs
    ]

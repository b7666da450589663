"""Changes applied after a fill, so that related inputs are data: a case replays by itself.

Parameters of a Fill, applied in this order:

take, take_axis, take_of   the tensor is drawn with `take_of` slices along axis `take_axis`;
                           slice i of the result is slice take[i mod len(take)] of that
part, part_seed            keep (part 0) or drop (part 1) a random half of the elements
scale_by                   multiply; a power of two is exact
shift, shift_axis          add a number to every slice along a dimension, its sign alternating
                           from slice to slice
roll_slices                roll slice i along this dimension by i places along another one, the
                           last that has values to roll: equal slices then differ
mirror, mirror_by          the second half of the slices along these dimensions is the first half,
                           along the first of them times a number: a sum of both cancels
permute                    one random order (by this seed) of the last dimension, for all rows
grid                       numbers are cut to multiples of 2^-grid of a power of two beyond the
                           largest, within their range: sums are exact in any order
reorder                    one random order (by this seed) of the flat tensor's elements; the first
                           and the last few stay, so that a fingerprint by sums or ends is the same
negate                     a random half (by this seed) of the elements takes the other sign, where
                           there are both signs; the first and the last few stay
vary, vary_seed            a constant c is replaced: floats by c * (1 +- vary), around 0 by normal
                           numbers times vary; integers by 1..c; of bools the ends of rows flip
slices, slices_axis,       slices at these places along a dimension take other values: of a few
slices_seed                values another one of them, else integers from the tensor's range and
                           floats as under vary
exchange                   the element at this place of the flat tensor and the next one change
                           places: sums, also those weighted by place, are nearly the same
spoil, spoil_with          set the elements at these places of the flat tensor to a number, or to
                           "nan": what no output depends on may hold anything

Everything is exact or rounded once to the tensor's dtype, and the same on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from cuassay.errors import ProblemError
from cuassay.inputs.packed import codes_of, comparable
from cuassay.model.case import Fill
from cuassay.model.problem import TensorSpec
from cuassay.tables import row

Draw = Callable[[Mapping[str, int]], torch.Tensor]
# Those that follow the choice of slices, in the order in which they are applied.
_TRANSFORMS: dict[str, Callable[[TensorSpec, Fill, torch.Tensor], torch.Tensor]] = {}


def transformed(spec: TensorSpec, fill: Fill, sizes: Mapping[str, int], draw: Draw) -> torch.Tensor:
    """Return `draw(sizes)` with the fill's transforms, contiguous, of spec's shape and dtype.

    Packed pairs of 4-bit numbers are changed as bytes, each of which is a legal pair. Raises
    ProblemError for parameters that do not fit the tensor.
    """
    value = _taken(spec, fill, sizes, draw) if "take" in fill.parameters else draw(sizes)
    drawn_as, value = value.dtype, codes_of(value)
    for name, transform in _TRANSFORMS.items():
        if name in fill.parameters:
            value = transform(spec, fill, value)
    value = value.contiguous()
    return value if value.dtype is drawn_as else value.view(drawn_as)


def _taken(spec: TensorSpec, fill: Fill, sizes: Mapping[str, int], draw: Draw) -> torch.Tensor:
    rows, axis = fill.parameters["take"], fill.parameters.get("take_axis")
    of = int(_number(spec, fill, "take_of"))
    if not isinstance(rows, tuple) or not isinstance(axis, str) or axis not in spec.shape:
        raise _unfit(spec, "take", rows, f"a tuple of rows and take_axis among {spec.shape}")
    picked = [int(row) for row in rows]
    if not picked or min(picked) < 0 or max(picked) >= of:
        raise _unfit(spec, "take", rows, f"rows within the {of} of take_of")
    base = draw({**sizes, axis: of})
    chosen = [picked[i % len(picked)] for i in range(sizes[axis])]
    index = torch.tensor(chosen, dtype=torch.int64, device=base.device)
    if base.dtype.itemsize == 1 and base.dtype.is_floating_point:  # not indexable everywhere
        taken = base.view(torch.uint8).index_select(spec.shape.index(axis), index)
        return taken.view(base.dtype)
    return base.index_select(spec.shape.index(axis), index)


@row(_TRANSFORMS, "part")
def _part(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(device="cpu")  # so that every device splits alike
    generator.manual_seed(int(_number(spec, fill, "part_seed")))
    first = torch.rand(value.shape, generator=generator) < 0.5
    kept = first if _number(spec, fill, "part") == 0 else ~first
    return torch.where(kept.to(value.device), value, torch.zeros((), dtype=value.dtype))


@row(_TRANSFORMS, "scale_by")
def _scaled(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    return (value.double() * _number(spec, fill, "scale_by")).to(value.dtype)


@row(_TRANSFORMS, "shift")
def _shifted(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    amount, dimension = _number(spec, fill, "shift"), int(_number(spec, fill, "shift_axis"))
    if not 0 <= dimension < value.dim():
        raise _unfit(spec, "shift_axis", dimension, f"a dimension of {spec.shape}")
    shape = [1 if d == dimension else size for d, size in enumerate(value.shape)]
    count = torch.Size(shape).numel()
    signs = 1 - 2 * (torch.arange(count, device=value.device) % 2)
    return (value.double() + amount * signs.reshape(shape)).to(value.dtype)


@row(_TRANSFORMS, "roll_slices")
def _rolled(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    dim = int(_number(spec, fill, "roll_slices"))
    if not 0 <= dim < value.dim():
        raise _unfit(spec, "roll_slices", dim, f"a dimension of {spec.shape}")
    # Floats of 8 and 4 bits cannot be indexed or compared everywhere: they roll as bytes.
    narrow = value.dtype.itemsize == 1 and value.dtype.is_floating_point
    plain = value.contiguous().view(torch.uint8) if narrow else value
    others = [d for d in range(value.dim() - 1, -1, -1) if d != dim and value.shape[d] > 1]
    along = next((d for d in others if bool((plain != plain.narrow(d, 0, 1)).any())), None)
    if along is None:
        return value
    parts = [plain.select(dim, i).roll(i, along - (along > dim)) for i in range(plain.shape[dim])]
    rolled = torch.stack(parts, dim)
    return rolled.view(value.dtype) if narrow else rolled


@row(_TRANSFORMS, "mirror")
def _mirrored(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    dims, by = fill.parameters["mirror"], _number(spec, fill, "mirror_by")
    if not isinstance(dims, tuple) or not all(0 <= dim < value.dim() for dim in dims):
        raise _unfit(spec, "mirror", dims, f"dimensions of {spec.shape}")
    for number, dim in enumerate(map(int, dims)):
        half = value.shape[dim] // 2
        first = value.narrow(dim, 0, half)
        other = first if number else (first.double() * by).to(value.dtype)
        value = torch.cat([first, other, value.narrow(dim, 2 * half, value.shape[dim] % 2)], dim)
    return value


@row(_TRANSFORMS, "permute")
def _permuted(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(device="cpu").manual_seed(int(_number(spec, fill, "permute")))
    order = torch.randperm(value.shape[-1], generator=generator)
    return value.index_select(value.dim() - 1, order.to(value.device))


@row(_TRANSFORMS, "grid")
def _on_grid(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    if not _is_finite(value):
        return value
    exponent = math.frexp(float(value.abs().max()))[1]
    scale = 2.0 ** (int(_number(spec, fill, "grid")) - exponent)
    units = value.double() * scale
    low, high = float(units.min().ceil()), float(units.max().floor())
    if low >= high:  # no two points within the range that the values have, which may be legal alone
        return value
    return (units.trunc().clamp(low, high) / scale).to(value.dtype)


_ENDS = 8  # elements at either end that stay where a tensor is reordered; fewer of a small one


def _middle(value: torch.Tensor) -> slice:
    """Return the places of the flat tensor that are not at its ends."""
    ends = min(_ENDS, value.numel() // 4)
    return slice(ends, value.numel() - ends)


@row(_TRANSFORMS, "reorder")
def _reordered(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(device="cpu").manual_seed(int(_number(spec, fill, "reorder")))
    # Floats of 8 bits cannot be indexed everywhere: they move as bytes.
    narrow = value.dtype.itemsize == 1
    flat = (value.contiguous().view(torch.uint8) if narrow else value).reshape(-1)
    places = torch.arange(flat.numel())
    middle = places[_middle(value)]
    places[_middle(value)] = middle[torch.randperm(len(middle), generator=generator)]
    moved = flat[places.to(flat.device)]
    return (moved.view(value.dtype) if narrow else moved).reshape(value.shape)


@row(_TRANSFORMS, "negate")
def _negated(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    if not (_is_finite(value) and bool((value > 0).any()) and bool((value < 0).any())):
        return value
    generator = torch.Generator(device="cpu").manual_seed(int(_number(spec, fill, "negate")))
    signs = torch.ones(value.numel(), dtype=value.dtype)
    turned = torch.randint(2, (value.numel(),), generator=generator)[_middle(value)]
    signs[_middle(value)] -= 2 * turned.to(value.dtype)
    return value * signs.reshape(value.shape).to(value.device)


def _is_finite(value: torch.Tensor) -> bool:
    if not value.is_floating_point() or value.dtype.itemsize == 1 or not value.numel():
        return False
    return bool(value.isfinite().all())


@row(_TRANSFORMS, "vary")
def _varied(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    by = _number(spec, fill, "vary")
    seed = int(_number(spec, fill, "vary_seed"))
    generator = torch.Generator(device="cpu").manual_seed(seed)  # every device varies alike
    if value.dtype is torch.bool:
        rows = value.reshape(-1, value.shape[-1]).clone()
        lengths = torch.randint(1, value.shape[-1] + 1, (len(rows), 1), generator=generator)
        tail = torch.arange(value.shape[-1]) >= lengths
        return (rows ^ tail.to(value.device)).reshape(value.shape)
    if not value.is_floating_point():
        high = int(value.reshape(-1)[0]) + 1
        drawn = torch.randint(1, max(high, 2), value.shape, generator=generator)
        return drawn.to(value.device, value.dtype)
    flat = value.reshape(-1)
    count = min(flat.numel(), _DRAWN)
    change = torch.rand(count, generator=generator, dtype=torch.float64).to(value.device)
    change = by * (2.0 * change - 1.0)
    made = torch.empty_like(flat)
    for start in range(0, flat.numel(), _DRAWN):  # in float64 the whole may have no room
        double = flat[start : start + _DRAWN].double()
        here = change[: len(double)]
        around = torch.where(double == 0, here, double * (1.0 + here))
        made[start : start + _DRAWN].copy_(around)
    return made.reshape(value.shape)


@row(_TRANSFORMS, "slices")
def _with_other_slices(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    places, dim = fill.parameters["slices"], int(_number(spec, fill, "slices_axis"))
    if not 0 <= dim < value.dim():
        raise _unfit(spec, "slices_axis", dim, f"a dimension of {spec.shape}")
    if not isinstance(places, tuple) or not all(0 <= p < value.shape[dim] for p in places):
        raise _unfit(spec, "slices", places, f"places within {value.shape[dim]} slices")
    seed = int(_number(spec, fill, "slices_seed"))
    chosen = torch.zeros(value.shape[dim], dtype=torch.bool)
    chosen[torch.tensor([int(place) for place in places])] = True
    shape = [-1 if d == dim else 1 for d in range(value.dim())]
    other = _others(value, torch.Generator(device="cpu").manual_seed(seed))
    return torch.where(chosen.reshape(shape).to(value.device), other, value)


@row(_TRANSFORMS, "exchange")
def _exchanged(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    at = int(_number(spec, fill, "exchange"))
    if not 0 <= at < value.numel() - 1:
        raise _unfit(spec, "exchange", at, f"a place before the last of {value.numel()}")
    before, pair = value.reshape(-1), value.contiguous().clone().view(-1)
    pair[at : at + 1], pair[at + 1 : at + 2] = before[at + 1 : at + 2], before[at : at + 1]
    return pair.view(value.shape)


@row(_TRANSFORMS, "spoil")
def _spoiled(spec: TensorSpec, fill: Fill, value: torch.Tensor) -> torch.Tensor:
    """Return the tensor with one number at some places of the flat tensor."""
    places, with_ = fill.parameters["spoil"], fill.parameters.get("spoil_with")
    number = float("nan") if with_ == "nan" else _number(spec, fill, "spoil_with")
    if not isinstance(places, tuple) or not all(0 <= p < value.numel() for p in places):
        raise _unfit(spec, "spoil", places, f"places within {value.numel()} elements")
    flat = value.reshape(-1).clone()
    at = torch.tensor([int(p) for p in places], device=value.device)
    if value.dtype.itemsize == 1 and value.dtype.is_floating_point:
        # Floats of 8 bits cannot be indexed everywhere: they are written as bytes.
        code = torch.tensor([number], device=value.device).to(value.dtype).view(torch.uint8)
        flat.view(torch.uint8)[at] = code
    else:
        flat[at] = number if value.is_floating_point() else int(number)
    return flat.reshape(value.shape)


# Elements of which a CPU draws changes, that larger tensors repeat: a minute and tens of GiB for
# the weights of a mixture of experts otherwise. A prime, so that no two rows change alike.
_DRAWN = (1 << 24) - 3
_FEW = 2  # values of a tensor that takes no others: a mask of zeros and minus infinities, say


def _others(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return values for every element, most of them other than those that are there."""
    drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64).to(value.device)
    if value.dtype is torch.bool:
        return value ^ (drawn < 0.5)
    known = torch.unique(comparable(value))
    if len(known) == _FEW:
        low, high = known[0].to(value.dtype), known[1].to(value.dtype)
        return torch.where(drawn < 0.5, low, high)
    if not value.is_floating_point():
        low, high = int(known[0]), int(known[-1])
        return (low + (drawn * (high - low + 1)).floor()).to(value.dtype)
    double = value.double()
    around = double * (1.0 + 0.5 * (2.0 * drawn - 1.0))
    least = -1.0 if bool((double < 0).any()) else 0.0
    return torch.where(double == 0, least + (1.0 - least) * drawn, around).to(value.dtype)


def _number(spec: TensorSpec, fill: Fill, name: str) -> float:
    value = fill.parameters.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unfit(spec, name, value, "a number")
    return value


def _unfit(spec: TensorSpec, name: str, value: object, expected: str) -> ProblemError:
    return ProblemError(
        f"fill parameter '{name}' of input '{spec.name}' is {value!r}, expected {expected}"
    )

"""A wrong way to compute one operation, and the roundings that wrong ways share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from cuassay.oracle.mutants.sums import Wrong

TILE = 32  # a kernel that forgets its last partial tile forgets what lies beyond n - n % TILE
_TF32_DROPPED = 13  # of float32's 23 fraction bits TF32 keeps 10

Round = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong way to compute an operation: its kind (`mutants_kinds`), in words, what shows it."""

    kind: str
    words: str
    shown_by: str
    wrong: Wrong


def through(dtype: torch.dtype) -> Round:
    """Return a function that rounds a tensor to `dtype` and back."""
    return lambda x: x.to(dtype).to(x.dtype)


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Return `x` rounded to TF32 (10 fraction bits, nearest, ties away) in its own dtype."""
    bits = x.to(torch.float32).view(torch.int32)
    half, kept = 1 << (_TF32_DROPPED - 1), -(1 << _TF32_DROPPED)
    rounded = ((bits + half) & kept).view(torch.float32)
    return torch.where(x.isfinite(), rounded.to(x.dtype), x)


ROUNDINGS: tuple[tuple[str, Round], ...] = (
    ("bfloat16", through(torch.bfloat16)),
    ("float16", through(torch.float16)),
    ("TF32", tf32),
)


def first_tile(count: int) -> int:
    """Return the largest power of two below `count` (at least 1): the first tile of a loop."""
    return max(1, 1 << ((count - 1).bit_length() - 1)) if count > 1 else count


def whole_tiles(count: int) -> int:
    """Return how many of `count` terms lie in whole tiles; all of them in a single tile."""
    return count - count % TILE if count > TILE else count


def first_slices(tensor: torch.Tensor, dim: int, count: int) -> torch.Tensor:
    """Return the first `count` slices of `tensor` along `dim`."""
    return tensor.narrow(dim, 0, count)


def broadcast_shape(args: Any) -> torch.Size:
    """Return the shape that the tensors among `args` broadcast to."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return torch.broadcast_tensors(*tensors)[0].shape  # type: ignore[no-untyped-call, no-any-return]


def equals_number(value: Any, number: int) -> bool:
    """Whether a literal of the reference equals `number`."""
    return isinstance(value, int | float) and value == number


def bypass(name: str) -> Fault:
    """The operation left out: its first argument is its result."""
    plain = name.strip("_")
    shown_by = f"values at which {plain} is far from the identity (larger ones)"
    return Fault("bypass", f"{plain} left out", shown_by, lambda op, a, k: a[0].clone())


def dropped(wrong: Wrong) -> Fault:
    """The last term of a reduction dropped."""
    shown_by = "a last term that carries weight (one-hot, outliers)"
    return Fault("dropped", "last term of the reduction dropped", shown_by, wrong)


def low(wrong: Callable[[torch.dtype], Wrong]) -> list[Fault]:
    """A running sum kept in bfloat16 or float16."""
    shown_by = "longer reductions, hot indices, same-sign and zero-mean values"
    large = f"{shown_by}, sums beyond 65504"
    return [
        Fault("low", "accumulated in bfloat16", shown_by, wrong(torch.bfloat16)),
        Fault("low", "accumulated in float16", large, wrong(torch.float16)),
    ]


def tiles(cut: Callable[[Callable[[int], int]], Wrong]) -> list[Fault]:
    """A reduction that reads only some tiles; `cut` makes it from how many terms it keeps."""
    beyond = "terms beyond the first tile that carry weight"
    longer = f"lengths beyond {TILE} that are no multiple of it"
    return [
        Fault("tile", "only the first tile of the reduction read", beyond, cut(first_tile)),
        Fault("tile", f"last partial tile of {TILE} dropped", longer, cut(whole_tiles)),
    ]

"""How far an answer is from another one, in units of that one: no truth, and no limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from cuassay.oracle.bits import raw_bytes


def distance(answer: Sequence[Tensor], reference: Sequence[Tensor]) -> tuple[float, float] | None:
    """Return the root mean square and the largest difference over the reference's root mean square.

    Of several outputs the larger ones. None where outputs have other shapes or dtypes, or where
    they differ and one of them is not a float of 16 bits or more, has a number that is not finite,
    or is zero everywhere.
    """
    mean = most = 0.0
    for one, other in zip(answer, reference, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return None
        one = one.detach().to(other.device)
        if torch.equal(raw_bytes(one), raw_bytes(other)):
            continue
        if not other.is_floating_point() or other.dtype.itemsize == 1:
            return None
        wide = other.double()
        apart = one.double() - wide
        sizes = torch.stack(
            [apart.square().mean().sqrt(), apart.abs().amax(), wide.square().mean().sqrt()]
        )
        here, largest, unit = sizes.tolist()
        if not (math.isfinite(here) and math.isfinite(unit) and unit > 0.0):
            return None
        mean, most = max(mean, here / unit), max(most, largest / unit)
    return mean, most

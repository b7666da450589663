"""Sums of centred terms, in the forms that never centre them.

A norm's backward pass sums w (x - mean) over a row. PyTorch's own kernels sum w x and w and
subtract mean times the second from the first: the partial sums carry the mean, and the result
errs by a factor of mean / std more than a sum of centred terms. A variance summed from centred
squares may as honestly come from Welford's recurrence, whose error is larger by
sqrt(E[x^2] / var) (Chan, Golub, LeVeque 1983), as `composite` allows for fused norms.

So a difference of a tensor and its own mean remembers the tensor, products remember what they
multiplied, and a sum over them is given the larger of both deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

Summed: TypeAlias = Callable[[Tensor], Tensor]
Reduced: TypeAlias = Callable[[Tensor], Tensor | None]
_MEANS = frozenset({"mean", "sum"})
_SCALED = frozenset({"mul", "multiply", "div", "divide", "true_divide"})
_SUBTRACTED = frozenset({"sub", "subtract"})
_SQUARED = frozenset({"square", "pow"})
NOTED = _MEANS | _SCALED | _SUBTRACTED | _SQUARED  # what `Centred.note` looks at
_MOST_FACTORS = 4  # products of more than that many tensors are left alone


@dataclass(frozen=True, slots=True)
class _Centred:
    """`result` = (values - mean) times the factors; squared once if `square`."""

    result: Tensor  # held, so that its identity stays its own
    values: Tensor
    factors: tuple[tuple[Tensor | float, bool], ...] = ()  # each with: divides
    square: bool = False

    def uncentred(self) -> Tensor:
        """Return the values with the factors, the mean left in."""
        out = self.values
        for factor, divides in self.factors:
            out = out / factor if divides else out * factor
        return out


class Centred:
    """Which tensors of one lifted run are centred, by what, and their means."""

    def __init__(self) -> None:
        self._means: dict[int, tuple[Tensor, Tensor]] = {}
        self._found: dict[int, _Centred] = {}

    def note(self, name: str, named: Mapping[str, Any], out: Any) -> None:
        """Remember what an operation with result `out` says of means and differences."""
        own, other = named.get("self"), named.get("other")
        if not isinstance(out, Tensor) or not isinstance(own, Tensor):
            return
        known = self._found.get(id(own))
        if name in _MEANS:
            if own.dtype.is_floating_point:
                self._means[id(out)] = (out, own)
        elif name in _SUBTRACTED:
            mean = self._means.get(id(other))
            if mean is not None and mean[1] is own and named.get("alpha", 1) == 1:
                self._found[id(out)] = _Centred(out, own)
        elif name in _SQUARED or other is own:
            exponent = named.get("exponent", 2)  # of pow; it may be a tensor
            twice = isinstance(exponent, int | float) and exponent == 2
            if twice and known is not None and not known.factors and not known.square:
                self._found[id(out)] = _Centred(out, known.values, square=True)
        elif isinstance(other, Tensor | float | int):
            divides = name not in ("mul", "multiply")
            if id(own) in self._means and not isinstance(other, Tensor):
                self._means[id(out)] = (out, self._means[id(own)][1])
            else:
                known, factor = self._found.get(id(own)), other
                if known is None and isinstance(other, Tensor) and not divides:
                    known, factor = self._found.get(id(other)), own
                if known is not None and not known.square and len(known.factors) < _MOST_FACTORS:
                    factors = (*known.factors, (factor, divides))
                    self._found[id(out)] = _Centred(out, known.values, factors)

    def deviation(
        self, values: Any, found: Tensor | None, *, total: Summed, reduced: Reduced
    ) -> Tensor | None:
        """Return the deviation of a sum over `values`: `found`, or that of an uncentred form.

        `total` gives the same sum over other values, `reduced` the deviation of that.
        """
        known = self._found.get(id(values))
        if known is None or found is None:
            return found
        if known.square:
            within = total(values)
            whole = total(known.values.square()) / torch.where(within > 0, within, 1.0)
            return found * whole.clamp_min(1.0).sqrt_()
        other = reduced(known.uncentred().expand_as(values))
        return found if other is None else torch.maximum(found, other)

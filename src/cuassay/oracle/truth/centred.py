"""Sums of centred terms, in the forms that never centre them.

A norm's backward pass sums w (x - mean) over a row. PyTorch's own kernels sum w x and w and
subtract mean times the second from the first: the partial sums carry the mean, and the result
errs by a factor of mean / std more than a sum of centred terms. A variance summed from centred
squares may as honestly come from Welford's recurrence, whose error is larger by
sqrt(E[x^2] / var) (Chan, Golub, LeVeque 1983), as `trust_norms` allows for fused norms.

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
        own = named.get("self")
        if not isinstance(out, Tensor) or not isinstance(own, Tensor):
            return
        if name in _MEANS and own.dtype.is_floating_point:
            self._means[id(out)] = (out, own)
        elif name in _SUBTRACTED:
            self._difference(named, own, out)
        elif name in _SCALED:
            self._scaled(named, own, out, divides=name not in ("mul", "multiply"))
        elif name in _SQUARED:
            exponent = named.get("exponent", 2)  # of pow; it may be a tensor
            if isinstance(exponent, int | float) and exponent == 2:
                self._squared(own, out)

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

    def _difference(self, named: Mapping[str, Any], own: Tensor, out: Tensor) -> None:
        mean = self._means.get(id(named.get("other")))
        if mean is not None and mean[1] is own and named.get("alpha", 1) == 1:
            self._found[id(out)] = _Centred(out, own)

    def _scaled(self, named: Mapping[str, Any], own: Tensor, out: Tensor, *, divides: bool) -> None:
        other = named.get("other")
        if not isinstance(other, Tensor | float | int):
            return
        if id(own) in self._means and not isinstance(other, Tensor):
            self._means[id(out)] = (out, self._means[id(own)][1])
        elif other is own:
            self._squared(own, out)
        elif (known := self._found.get(id(own))) is not None:
            self._extend(known, other, out, divides=divides)
        elif isinstance(other, Tensor) and not divides and id(other) in self._found:
            self._extend(self._found[id(other)], own, out, divides=False)

    def _extend(
        self, known: _Centred, factor: Tensor | float, out: Tensor, *, divides: bool
    ) -> None:
        if known.square or len(known.factors) >= _MOST_FACTORS:
            return
        factors = (*known.factors, (factor, divides))
        self._found[id(out)] = _Centred(out, known.values, factors)

    def _squared(self, own: Tensor, out: Tensor) -> None:
        known = self._found.get(id(own))
        if known is not None and not known.factors and not known.square:
            self._found[id(out)] = _Centred(out, known.values, square=True)

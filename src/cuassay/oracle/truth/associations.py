"""Products of products in another association: what a trusted kernel may round in between.

Linear attention multiplies scores, q k, by values. Kernels go through the tokens in chunks and keep
the state k v instead, which they round where they read it: q (k v). A rounded score errs by a part
of its value, which is small where its terms cancel. The state's terms are others, which do not:
its error reaches the output as if each score erred by a part of the norm of its terms,

    var(q (k v)) = h^2 q^2 (k^2 v^2) = h^2 (q^2 k^2) v^2,

in second moments. So where an operand of a product is the result of an earlier one, times factors
(a decay, a mask), a draw errs by the rest of that norm as well.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, UntypedStorage

from cuassay.hooks import Operation, floating_in
from cuassay.oracle.lift.together import all_runs, first_run
from cuassay.oracle.truth.reductions import PRODUCTS, product_factors

_FACTORS = frozenset({"mul", "div", "neg", "masked_fill", "where", "copy", "_to_copy", "clone"})
_MOST_ELEMENTS = 1 << 24  # of an operand: beyond, two products more are too much memory
_MOST_RATIO = 4096.0  # float32's own errors of a sum that cancels by more are as large as the sum


@dataclass(frozen=True, slots=True, eq=False)
class _Factors:
    """The factors of a product, and the memory of a result that is theirs times other factors."""

    left: Tensor
    right: Tensor
    result: weakref.ref[UntypedStorage]


class Products:
    """Remembers which tensors of a run are products times factors, by their memory.

    An entry is forgotten with the memory of its result, which another tensor may take.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Factors] = {}

    def note(self, asked: Operation, result: Tensor) -> None:
        """Take note of an operation's result where it is a product, or one times factors."""
        if asked.name in PRODUCTS:
            left, right = (first_run(one) for one in product_factors(asked))
            self._keep(result, left, right)
        elif asked.name in _FACTORS:
            for operand in floating_in([*asked.args, *asked.kwargs.values()]):
                known = self._factors(operand)
                if known is not None and operand.shape == result.shape:
                    self._keep(result, known.left, known.right)
                    return

    def excess(self, operand: Tensor) -> Tensor | None:
        """Return by how much more than itself the terms of each element have as their norm.

        As a multiple of the element, in quadrature; None where the operand is no product.
        """
        known = self._factors(operand)
        if known is None or operand.numel() > _MOST_ELEMENTS:
            return None
        terms = known.left.square() @ known.right.square()
        total = (known.left @ known.right).square_()
        if total.numel() != operand.numel():
            return None
        excess = (terms / total).nan_to_num_(0.0, 0.0, 0.0).sub_(1.0)
        return excess.clamp_(0.0, _MOST_RATIO**2).sqrt_().reshape(operand.shape)

    def _keep(self, result: Tensor, left: Tensor, right: Tensor) -> None:
        storage = all_runs(result).untyped_storage()
        place = storage.data_ptr()
        held = weakref.ref(storage, lambda _: self._known.pop(place, None))
        self._known[place] = _Factors(left, right, held)

    def _factors(self, value: Tensor) -> _Factors | None:
        """Return the factors of a tensor that lies in its memory in the order of its elements."""
        known = self._known.get(all_runs(value).untyped_storage().data_ptr())
        if known is None or known.result() is None or not _in_order(first_run(value)):
            return None
        return known


def _in_order(value: Tensor) -> bool:
    """Whether later axes have shorter steps: a transposed view has not."""
    steps: Sequence[int] = [
        step for step, size in zip(value.stride(), value.shape, strict=True) if size > 1
    ]
    return all(one >= other > 0 for one, other in itertools.pairwise(steps))

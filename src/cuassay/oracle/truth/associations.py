"""Products and sums in another association: what a trusted kernel may round in between.

Linear attention multiplies scores, q k, by values. Kernels go through the tokens in chunks and keep
the state k v instead, which they round where they read it: q (k v). A rounded score errs by a part
of its value, which is small where its terms cancel. The state's terms are others, which do not:
its error reaches the output as if each score erred by a part of the norm of its terms,

    var(q (k v)) = h^2 q^2 (k^2 v^2) = h^2 (q^2 k^2) v^2,

in second moments. So where an operand of a product is the result of an earlier one, times factors
(a decay, a mask), a draw errs by the rest of that norm as well.

A product times a number is a product of a scaled factor too: attention in 16 bits scales its
queries first, and stores them. What their rounding does to a score is no part of that score where
its terms cancel.

A sum of three terms has three orders, and each stores another partial sum. Where a large one
takes in a small term, its rounding takes that term away, in all elements alike: so x scale + (bias
- mean scale) is (x scale - mean scale) + bias too. Each draw and each program takes one order.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor, UntypedStorage

from cuassay.hooks import Operation, floating_in
from cuassay.oracle.lift.together import all_runs, first_run
from cuassay.oracle.truth.reductions import PRODUCTS, product_factors

_FACTORS = frozenset({"mul", "div", "neg", "masked_fill", "where", "copy", "_to_copy", "clone"})
_MOST_ELEMENTS = 1 << 24  # of an operand: beyond, two products more are too much memory
_MOST_TERMS = 1 << 22  # elements of a sum whose terms are kept
_PLAIN = frozenset({"mm", "bmm"})
_MOST_RATIO = 4096.0  # float32's own errors of a sum that cancels by more are as large as the sum

_Term: TypeAlias = tuple[Tensor, float]  # and its factor
Makes: TypeAlias = Sequence[Callable[[], Tensor]]


@dataclass(frozen=True, slots=True, eq=False)
class _Factors:
    """The factors of a product, and the memory of a result that is theirs times other factors.

    `plain`: it is theirs alone, of all runs.
    """

    left: Tensor
    right: Tensor
    result: weakref.ref[UntypedStorage]
    plain: bool


class Products:
    """Remembers which tensors of a run are products times factors, by their memory.

    An entry is forgotten with the memory of its result, which another tensor may take.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Factors] = {}

    def note(self, asked: Operation, result: Tensor) -> None:
        """Take note of an operation's result where it is a product, or one times factors."""
        if asked.name in PRODUCTS:
            left, right = product_factors(asked)
            plain = asked.name in _PLAIN and max(left.numel(), right.numel()) <= _MOST_TERMS
            if not plain:
                left, right = first_run(left), first_run(right)
            self._keep(result, left, right, plain=plain)
        elif asked.name in _FACTORS:
            for operand in floating_in([*asked.args, *asked.kwargs.values()]):
                known = self._factors(operand)
                if known is not None and operand.shape == result.shape:
                    self._keep(result, known.left, known.right, plain=False)
                    return

    def orders(self, asked: Operation, stored: Callable[[Tensor], Tensor]) -> Makes:
        """Return what makes a product times a number with its first factor scaled; else none.

        `stored` says how the scaled factor is stored.
        """
        scaled = _scaled(asked)
        known = None if scaled is None else self._factors(scaled[0])
        if scaled is None or known is None or not known.plain:
            return ()
        shape, number = scaled[0].shape, scaled[1]
        return [lambda: (stored(known.left * number) @ known.right).reshape(shape)]

    def excess(self, operand: Tensor) -> Tensor | None:
        """Return by how much more than itself the terms of each element have as their norm.

        As a multiple of the element, in quadrature; None where the operand is no product.
        """
        known = self._factors(operand)
        if known is None or operand.numel() > _MOST_ELEMENTS:
            return None
        left, right = (first_run(one) for one in (known.left, known.right))
        terms = left.square() @ right.square()
        total = (left @ right).square_()
        if total.numel() != operand.numel():
            return None
        excess: Tensor = (terms / total).nan_to_num_(0.0, 0.0, 0.0).sub_(1.0)
        return excess.clamp_(0.0, _MOST_RATIO**2).sqrt_().reshape(operand.shape)

    def _keep(self, result: Tensor, left: Tensor, right: Tensor, *, plain: bool) -> None:
        storage = all_runs(result).untyped_storage()
        place = storage.data_ptr()
        held = weakref.ref(storage, lambda _: self._known.pop(place, None))
        self._known[place] = _Factors(left, right, held, plain)

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


class Sums:
    """Remembers which tensors of a run are sums of two terms, by their memory.

    The terms are kept as long as the sum's memory is.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[UntypedStorage], tuple[_Term, _Term]]] = {}

    def note(self, asked: Operation, result: Tensor) -> None:
        """Take note of an operation's result where it is the sum of two tensors."""
        terms = _terms(asked)
        if terms is None or result.numel() > _MOST_TERMS:
            return
        shape, storage = result.shape, all_runs(result).untyped_storage()
        place = storage.data_ptr()
        held = weakref.ref(storage, lambda _: self._known.pop(place, None))
        (one, first), (two, second) = terms
        self._known[place] = held, ((one.expand(shape), first), (two.expand(shape), second))

    def orders(self, asked: Operation, stored: Callable[[Tensor], Tensor]) -> Makes:
        """Return what makes a sum of three terms in its other orders; none for any other result.

        `stored` says how a partial sum is stored.
        """
        terms = _terms(asked)
        if terms is None or max(one.numel() for one, _ in terms) > _MOST_TERMS:
            return ()

        def make(first: _Term, second: _Term, third: _Term) -> Tensor:
            return stored(_times(*first) + _times(*second)) + _times(*third)

        return [
            functools.partial(make, term, *order)
            for term, (inner, factor) in (terms, terms[::-1])
            for order in itertools.permutations(self._terms_of(inner, factor), 2)
        ]

    def _terms_of(self, value: Tensor, factor: float) -> Sequence[_Term]:
        """Return the terms of `factor` times a tensor, none where it is no sum."""
        known = self._known.get(all_runs(value).untyped_storage().data_ptr())
        if known is None or known[0]() is None or not _in_order(first_run(value)):
            return ()
        if known[1][0][0].numel() != value.numel():
            return ()
        return [(one.reshape(value.shape), factor * own) for one, own in known[1]]


def _terms(asked: Operation) -> tuple[_Term, _Term] | None:
    """Return the terms of a sum or a difference of two real tensors; None for anything else."""
    if asked.name not in ("add", "sub", "rsub"):
        return None
    one, two, alpha = (asked.named.get(name) for name in ("self", "other", "alpha"))
    alpha = 1.0 if alpha is None else float(alpha)
    if not (isinstance(one, Tensor) and isinstance(two, Tensor) and one.dtype == two.dtype):
        return None
    if len(floating_in([one, two])) < 2 or one.is_complex() or one.dim() + two.dim() == 0:
        return None
    if asked.name == "rsub":
        return (two, 1.0), (one, -alpha)
    return (one, 1.0), (two, -alpha if asked.name == "sub" else alpha)


def _scaled(asked: Operation) -> tuple[Tensor, Tensor | float] | None:
    """Return the tensor that an operation multiplies by one number, and the number; else None."""
    if asked.name not in ("mul", "div"):
        return None
    one, two = asked.named["self"], asked.named["other"]
    if asked.name == "mul" and isinstance(two, Tensor) and two.numel() > 1:
        one, two = two, one
    if not isinstance(one, Tensor) or (isinstance(two, Tensor) and two.numel() > 1):
        return None
    return one, two if asked.name == "mul" else 1.0 / two


def _times(value: Tensor, factor: float) -> Tensor:
    return value if factor == 1.0 else value * factor

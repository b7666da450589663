"""Residues of tensors, an element each: arithmetic in `ptxsan`'s fields, shapes by torch.

Every function takes and returns int64 tensors of slots (`ptxsan.numerics.residues`). "Resolved"
ones are residues, or NONE where the number is not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptxsan.numerics.residues import FIRST, NONE, P, Q
from ptxsan.runtime import slots as S

Bilinear = Callable[[Tensor, Tensor], Tensor]
_LIMB = 1 << 16


def resolve(slots: Tensor, values: Tensor, key: int) -> Tensor:
    """Return resolved slots of numbers (float64)."""
    return _shaped(S.resolved(_flat(slots), _flat(values), key), slots)


def constants(values: Tensor) -> Tensor:
    """Return the residues of numbers (float64) that are the same for all data."""
    return resolve(torch.zeros(values.shape, dtype=torch.int64), values, 0)


def combine(operation: int, a: Tensor, b: Tensor) -> Tensor:
    """Return a + b, a - b, a b or a / b (`ptxsan.runtime.algebra`), shapes broadcast."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    x, y = a.expand(shape), b.expand(shape)
    return _shaped(S.combined(operation, _flat(x), _flat(y)), x)


def apply(operation: int, a: Tensor, values: Tensor) -> Tensor:
    """Return a function of slots whose numbers are `values` (float64)."""
    return _shaped(S.applied(operation, _flat(a), _flat(values)), a)


def negate(a: Tensor) -> Tensor:
    """Return -a."""
    return _shaped(S.negated(_flat(a)), a)


def running_products(a: Tensor, dim: int) -> Tensor:
    """Return the products of the first elements along an axis."""
    last = a.movedim(dim, -1)
    found = _shaped(S.running_products(_flat(last), last.shape[-1]), last)
    return found.movedim(-1, dim)


def linear(a: Tensor, op: Callable[[Tensor], Tensor], shown: Tensor) -> Tensor:
    """Return what a sum of elements is, by `op` on int64; `shown` is what it gave on numbers.

    `op` adds each element once at most to an element of its result, and fewer than 2**31 of them.
    """
    p, q = _parts(a)
    lost = q < 0
    total_q = op(q.clamp(min=0)) % Q
    if bool(lost.any()):
        total_q = torch.where(op(lost.long()) > 0, -1, total_q)
    return _finite(_packed(op(p) % P, total_q), shown, bool((a == NONE).any()))


def bilinear(a: Tensor, b: Tensor, op: Bilinear, shown: Tensor) -> Tensor:
    """Return sums of products, by `op` on float64; `shown` is what it gave on numbers.

    Residues are taken apart into limbs of 16 bits: sums of up to 2**20 products are then exact in
    float64. A product with a true zero is one, whatever the other factor has lost.
    """
    parts_a, parts_b = _parts(a), _parts(b)
    p = _product(parts_a[0], parts_b[0], op, P)
    lost_a, lost_b = parts_a[1] < 0, parts_b[1] < 0
    q = _product(parts_a[1].clamp(min=0), parts_b[1].clamp(min=0), op, Q)
    if bool(lost_a.any()) or bool(lost_b.any()):
        some_a, some_b = (a != FIRST).double(), (b != FIRST).double()
        lost = op(lost_a.double(), some_b) + op(some_a, lost_b.double())
        q = torch.where(lost > 0.5, -1, q)
    none = bool((a == NONE).any()) or bool((b == NONE).any())
    return _finite(_packed(p, q), shown, none)


def _product(a: Tensor, b: Tensor, op: Bilinear, prime: int) -> Tensor:
    high_a, low_a = (a // _LIMB).double(), (a % _LIMB).double()
    high_b, low_b = (b // _LIMB).double(), (b % _LIMB).double()
    high = op(high_a, high_b).long() % prime
    middle = (op(high_a, low_b).long() + op(low_a, high_b).long()) % prime
    low = op(low_a, low_b).long() % prime
    square = _LIMB * _LIMB % prime
    found: Tensor = (high * square % prime + middle * _LIMB % prime + low) % prime
    return found


def _finite(found: Tensor, shown: Tensor, none: bool) -> Tensor:
    """Return slots without those of numbers that are not finite, if an operand was not."""
    return torch.where(torch.isfinite(shown), found, NONE) if none else found


def _parts(a: Tensor) -> tuple[Tensor, Tensor]:
    flat = _flat(a)
    p, q = torch.empty(flat.size, dtype=torch.int64), torch.empty(flat.size, dtype=torch.int64)
    S.parts(flat, p.numpy(), q.numpy())
    return p.reshape(a.shape), q.reshape(a.shape)


def _packed(p: Tensor, q: Tensor) -> Tensor:
    return _shaped(S.packed(_flat(p), _flat(q)), p)


def _flat(tensor: Tensor) -> Any:
    """Return the elements in order as an array."""
    return tensor.detach().contiguous().reshape(-1).numpy()


def _shaped(found: Any, like: Tensor) -> Tensor:
    return torch.from_numpy(found).reshape(like.shape)

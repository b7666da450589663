"""Rounding errors that all go one way: sums of addends that repeat.

Adding `a` to a partial sum P rounds by the remainder of `a` on P's grid (spacing 2u 2^e). For
addends that differ, remainders are as good as random and partial sums make a random walk. For
addends that repeat, every addition errs alike, and an honest running sum of n terms drifts by
up to n u |P| / 2: measured 10 to 17 random-walk deviations for 640 equal terms. The drift is
known from the inputs: n times the mean remainder, on the grids that running and split sums of
these terms pass through. Addends that are exact there (ones, integers, 16-bit numbers) drift
by nothing, so that a lost term of such sums still shows.
"""

from __future__ import annotations

import torch
from torch import Tensor

UNIT = 2.0**-24  # grids are float32's; other accumulations differ by their own roundoff
LEVELS = 4  # grids from the largest partial sum down to an eighth of it: split sums
_FEWEST = 4  # fewer terms: a walk and a drift are the same
_REPEATED = 0.01  # share of equal neighbours: at most 100 distinct addends
_PAIRS = 256  # neighbours looked at in each sum
_SAME = 32 * UNIT  # relative: draws perturb addends that are equal by their own roundings
_EQUAL = 1e-9  # shortfall of S^2 / (n Q) from 1: all addends equal up to such perturbations


def _grid(top: Tensor, level: int) -> Tensor:
    """Return the spacing of float32 at top / 2**level, 1 where that is 0."""
    exponent = torch.frexp(top)[1] - (24 + level)
    return torch.where(top > 0, torch.ldexp(torch.ones_like(top), exponent), 1.0)


def _remainder(values: Tensor, grid: Tensor) -> Tensor:
    return values - (values / grid).round_().mul_(grid)


def _equal(values: Tensor) -> Tensor:
    """Return which of some 256 neighbours along the last axis are equal and not 0 (0 or 1)."""
    step = max(1, (values.shape[-1] - 1) // _PAIRS)
    left, right = values[..., :-1:step], values[..., 1::step]
    equal = (left - right).abs() <= left.abs() * _SAME
    return (equal & (left != 0)).to(values.dtype)


def _run(share: Tensor, terms: int) -> Tensor:
    """Return the mean length of runs of equal addends, from the share of equal neighbours."""
    return terms / (1.0 + (terms - 1.0) * (1.0 - share))


def drift(values: Tensor, top: Tensor) -> Tensor | None:
    """Return the drift, in u, of summing over the last axis; None where no addend repeats.

    `top` is the largest partial sum, of the shape of the result.
    """
    if values.shape[-1] < _FEWEST:
        return None
    share = _equal(values).mean(-1)
    where = share > _REPEATED
    if not bool(where.any()):
        return None
    terms = values.shape[-1]
    some, level_top = values[where], top[where].double().abs()
    run = _run(share[where], terms)
    found = torch.zeros_like(level_top)
    for level in range(LEVELS):
        remainder = _remainder(some, _grid(level_top, level).unsqueeze(-1))
        found = torch.maximum(found, remainder.sum(-1).abs())
        if level == 0:  # blocks of equal addends whose drifts cancel by luck in this order
            found = torch.maximum(found, (remainder.square().sum(-1) * run).sqrt())
    out = torch.zeros_like(top)
    out[where] = (found / UNIT).to(out.dtype)
    return out


def equal_drift(total: Tensor, squares: Tensor, terms: Tensor | float) -> Tensor:
    """Return the drift, in u, of `terms` addends where all are equal (S^2 = n Q), else 0."""
    energy = squares * terms
    equal = (energy - total.square()).abs() <= energy * _EQUAL
    safe = torch.where(equal & (energy > 0), total, 0.0).double()
    addend = safe / (terms.clamp_min(1) if isinstance(terms, Tensor) else terms)
    found = torch.zeros_like(safe)
    for level in range(LEVELS):
        remainder = _remainder(addend, _grid(safe.abs(), level))
        found = torch.maximum(found, remainder.abs())
    return (found * terms / UNIT).to(total.dtype)


def block_drift(a: Tensor, b: Tensor, total: Tensor, top: Tensor) -> Tensor | None:
    """Return the drift, in u, of a @ b where products come in runs; None where none repeats.

    Each run drifts by its length times a remainder as good as random on the grid of the
    largest partial sum `top`. Sums that lie on float32's grid are taken as exact ones.
    """
    terms = a.shape[-1]
    one, two = _equal(a), _equal(b.movedim(-2, -1) if b.dim() >= 2 else b)
    if not (bool(one.mean() > _REPEATED) and bool(two.mean() > _REPEATED)):
        return None
    other = two.movedim(-1, -2) if b.dim() >= 2 else two
    share = (one @ other) / one.shape[-1]
    grid = _grid(top.double(), 0)
    drifted = (grid / UNIT) * (terms * _run(share.double(), terms) / 12).sqrt()
    inexact = (share > _REPEATED) & (_remainder(total.double(), grid) != 0)
    return torch.where(inexact, drifted, 0.0).to(total.dtype)

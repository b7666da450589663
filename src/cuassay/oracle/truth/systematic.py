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

import functools

import torch
from torch import Tensor

UNIT = 2.0**-24  # grids are float32's; other accumulations differ by their own roundoff
LEVELS = 4  # grids from the largest partial sum down to an eighth of it: split sums
_FEWEST = 4  # fewer terms: a walk and a drift are the same
_REPEATED = 0.01  # share of equal pairs: runs, or at most 100 distinct addends
_PAIRS = 256  # neighbours looked at in each sum
_SAME = 32 * UNIT  # relative: draws perturb addends that are equal by their own roundings
_AT_ONCE = 1 << 24  # addends: pairs of them are copies, several at one time
_EQUAL = 1e-9  # shortfall of S^2 / (n Q) from 1: all addends equal up to such perturbations


def _grid(top: Tensor, level: int) -> Tensor:
    """Return the spacing of float32 at top / 2**level, 1 where that is 0."""
    exponent = torch.frexp(top)[1].double() - (24 + level)
    return torch.where(top > 0, torch.exp2(exponent), 1.0)  # float64: never 0


def _remainder(values: Tensor, grid: Tensor) -> Tensor:
    return values - (values / grid).round_().mul_(grid)


def _equal(left: Tensor, right: Tensor) -> Tensor:
    """Return where two addends are equal and not 0 (0 or 1)."""
    equal = (left - right).abs() <= left.abs() * _SAME
    return (equal & (left != 0)).to(left.dtype)


def _neighbours(values: Tensor) -> Tensor:
    """Compare some 256 neighbours along the last axis: shows runs."""
    step = max(1, (values.shape[-1] - 1) // _PAIRS)
    return _equal(values[..., :-1:step], values[..., 1::step])


def _strangers(values: Tensor) -> Tensor:
    """Compare at most 256 pairs drawn along the last axis: shows few values in any order."""
    one, other = _pairs(values.shape[-1], values.device)
    return _equal(values[..., one], values[..., other])


@functools.lru_cache(maxsize=64)
def _pairs(terms: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return places of pairs, made once: a reference that loops has thousands of equal sums."""
    generator = torch.Generator().manual_seed(terms)
    one = torch.randint(terms, (min(_PAIRS, terms),), generator=generator)
    step = torch.randint(1, terms, one.shape, generator=generator)
    return one.to(device), ((one + step) % terms).to(device)


def _run(neighbours: Tensor, strangers: Tensor, terms: int) -> Tensor:
    """Return how many addends err alike on average, from the shares of equal pairs."""
    runs = terms / (1.0 + (terms - 1.0) * (1.0 - neighbours))
    return torch.maximum(runs, terms * strangers)


def drift(values: Tensor, top: Tensor) -> Tensor | None:
    """Return the drift, in u, of summing over the last axis; None where no addend repeats.

    `top` is the largest partial sum, of the shape of the result.
    """
    terms = values.shape[-1]
    if terms < _FEWEST:
        return None
    found = torch.zeros_like(top).reshape(-1)
    rows = max(1, _AT_ONCE // terms)
    flat, any_repeats = values.reshape(-1, terms), False
    for start in range(0, len(found), rows):
        at = slice(start, start + rows)
        part = flat[at]
        near, far = _neighbours(part).mean(-1), _strangers(part).mean(-1)
        where = torch.maximum(near, far) > _REPEATED
        if not bool(where.any()):
            continue
        any_repeats = True
        some, level_top = part[where], top.reshape(-1)[at][where].double().abs()
        run = _run(near[where], far[where], terms)
        largest = torch.zeros_like(level_top)
        for level in range(LEVELS):
            remainder = _remainder(some, _grid(level_top, level).unsqueeze(-1))
            largest = torch.maximum(largest, remainder.sum(-1).abs())
            if level == 0:  # blocks of equal addends whose drifts cancel by luck in this order
                largest = torch.maximum(largest, (remainder.square().sum(-1) * run).sqrt())
        found[at][where] = (largest / UNIT).to(found.dtype)
    return found.view(top.shape) if any_repeats else None


def equal_drift(total: Tensor, squares: Tensor, terms: Tensor | float) -> Tensor | None:
    """Return the drift, in u, of `terms` addends where all are equal (S^2 = n Q), else 0.

    None where they are equal nowhere.
    """
    energy = squares * terms
    equal = (energy - total.square()).abs() <= energy * _EQUAL
    equal &= energy > 0
    if not bool(equal.any()):
        return None
    safe = torch.where(equal, total, 0.0).double()
    addend = safe / (terms.clamp_min(1) if isinstance(terms, Tensor) else terms)
    found = torch.zeros_like(safe)
    for level in range(LEVELS):
        remainder = _remainder(addend, _grid(safe.abs(), level))
        found = torch.maximum(found, remainder.abs())
    return (found * terms / UNIT).to(total.dtype)


def repeats(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return which share of neighbours and of strangers are equal products in each sum of a @ b.

    None where no sum has enough of them to drift.
    """
    other = b.movedim(-2, -1) if b.dim() >= 2 else b
    shares: list[Tensor | None] = []
    for look in (_neighbours, _strangers):
        one, two = look(a), look(other)
        both = bool((one.mean() > _REPEATED) & (two.mean() > _REPEATED))
        product = one @ (two.movedim(-1, -2) if b.dim() >= 2 else two) if both else None
        shares.append(None if product is None else (product / one.shape[-1]).double())
    found = next((share for share in shares if share is not None), None)
    if found is None:
        return None
    near, far = (torch.zeros_like(found) if share is None else share for share in shares)
    return (near, far) if bool((torch.maximum(near, far) > _REPEATED).any()) else None


def block_drift(repeated: tuple[Tensor, Tensor], total: Tensor, top: Tensor, terms: int) -> Tensor:
    """Return the drift, in u, of sums of products that repeat as `repeats` says.

    Each group of equal products drifts by its length times a remainder as good as random on
    the grid of the largest partial sum `top`. Sums on float32's grid are taken as exact ones.
    """
    near, far = repeated
    grid = _grid(top.double(), 0)
    drifted = (grid / UNIT) * (terms * _run(near, far, terms) / 12).sqrt()
    inexact = (torch.maximum(near, far) > _REPEATED) & (_remainder(total.double(), grid) != 0)
    return torch.where(inexact, drifted, 0.0).to(total.dtype)

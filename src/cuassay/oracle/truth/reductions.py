"""Random-walk noise of reductions, and the deviations that depend on the inputs alone.

A sum of n terms in any order rounds each partial sum P_j once: variance u^2 * sum_j P_j^2. With
V = n * max(S^2/3 + Q/6, mean_j P_j^2) this covers sequential order (prefix sums after each of
16 chunks), and the expected partial sums of a random order (S the result, Q the sum of squared
terms), and the lanes of a vectorised loop. u * sqrt(n) * sum|x| would be sqrt(n) too large for
terms of mixed sign and would wave TF32 and float16 matrix products through.

Addends that repeat drift instead of walking (`systematic`): the larger of both counts.

Tensor cores truncate. Hopper's `mma.sync` cuts 16 products and the running sum toward zero at
2^-25 of the largest and the result to float32, so that a sum of n terms shrinks by up to
_TENSOR_CORE_LEAN n u mean_j |P_j|: 0.11 n u of a same-sign sum, measured for n of 4 096 to 65 536
by the exact rule and on an H200 (calibration of the oracle). Their matrix products carry it. Each
element goes the way of -mean_j P_j, which no mean over elements averages away: where partial sums
rise and cancel (the terms' second half is the first one's negative), all go one way.

Deviations change little from draw to draw, so they are computed in the first and kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cuassay.hooks import Operation
from cuassay.oracle.truth.random_errors import sizeable
from cuassay.oracle.truth.systematic import block_drift, drift, equal_drift, repeats
from cuassay.tables import row

_TENSOR_CORE_LEAN = 0.25  # of n u mean|P|; half of it where all terms have one sign
# Of that lean, what a draw shows: limits are five times what draws show (LIMIT_P).
_LEAN_SHOWN = 0.25
_CHUNKS = 16
_LANES = 8  # of a vectorised loop: 8 float32 in a 256-bit register, 8 bfloat16 in a 16-byte load
_MIN_PREFIX = 32  # fewer terms: the second form adds nothing
_MOST_ORDERED = 1 << 26  # elements; beyond, a random order's partial sums stand for any
_MIN_LEAN = 1024  # terms; below, the lean is under 8e-6: a thirtieth of float16's half spacing

_PLAIN_PRODUCTS = frozenset({"mm", "bmm", "dot", "mv", "vdot"})
SCATTERED = ("index_add", "scatter_add", "index_put", "scatter_reduce", "embedding_dense_backward")
PRODUCTS = _PLAIN_PRODUCTS | {"addmm", "baddbmm", "addmv", "addbmm"}


def deviation_of(asked: Operation, out: Any, *, tensor_cores: bool = False) -> Tensor | None:
    """Return sqrt(V) (broadcastable to the first result), None for other operations.

    With `tensor_cores` matrix products may have been summed by them.
    """
    first = out[0] if isinstance(out, list | tuple) else out
    if not isinstance(first, Tensor) or not first.dtype.is_floating_point:
        return None
    if asked.name in PRODUCTS:
        product = _product(*product_factors(asked), tensor_cores)
        if asked.name in _PLAIN_PRODUCTS:
            return product
        named = asked.named  # of adding the bias as well
        bias: Tensor = (named["self"] * named.get("beta", 1)).square() + first.square()
        return (
            bias if product is None else product.square() * named.get("alpha", 1) ** 2 + bias
        ).sqrt()
    find = REDUCTIONS.get(asked.name)
    return None if find is None else find(asked, first)


def reduced_dims(dims: Any, rank: int) -> list[int]:
    """Return the dimensions that a reduction's `dim` argument means, all for None or []."""
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        return list(range(rank))
    listed = dims if isinstance(dims, list | tuple) else [dims]
    return sorted({int(dim) % max(rank, 1) for dim in listed}) if rank else []


def _walk(total: Tensor, squares: Tensor, terms: Tensor | float) -> Tensor:
    return (terms * (total.square() / 3 + squares / 6)).sqrt_()


def _at_least(noise: Tensor, systematic: Tensor | None) -> Tensor:
    return noise if systematic is None else torch.maximum(noise, systematic)


# Sums along axes.


def walk_deviation(values: Tensor) -> Tensor:
    """Return sqrt(V) of summing `values` over their last axis (see the module's formula)."""
    terms = values.shape[-1]
    squares = values.square().sum(-1)
    if terms < _MIN_PREFIX:
        total = values.sum(-1)
        return _at_least(_walk(total, squares, float(terms)), drift(values, total))
    parts = torch.stack([part.sum(-1) for part in values.tensor_split(_CHUNKS, -1)])
    prefix = parts.cumsum(0)
    total, top = prefix[-1].clone(), prefix.abs().amax(0)
    # Every eighth term by one lane of a vectorised loop, then the lanes: terms that cancel in
    # order, as those of alternating sign, add up within a lane.
    rows = terms // _LANES
    lanes = values[..., : rows * _LANES].reshape(*values.shape[:-1], rows, _LANES)
    sums = torch.stack([part.sum(-2) for part in lanes.tensor_split(_CHUNKS, -2)])
    walked = prefix.square_().mean(0) * terms
    walked = torch.maximum(walked, sums.cumsum_(0).square_().mean((0, -1)) * terms)
    noise = torch.maximum(_walk(total, squares, float(terms)).square_(), walked).sqrt_()
    return _at_least(noise, drift(values, top))


def _last(values: Tensor, axes: Sequence[int]) -> Tensor:
    """Return `values` with the listed axes flattened into the last one."""
    kept = [axis for axis in range(values.dim()) if axis not in axes]
    return values.permute(*kept, *axes).reshape(*(values.shape[k] for k in kept), -1)


REDUCTIONS: dict[str, Callable[[Operation, Tensor], Tensor | None]] = {}


@row(REDUCTIONS, "sum", "mean", "nansum")
def _sum(asked: Operation, out: Tensor) -> Tensor | None:
    values: Tensor = asked.named["self"]
    axes = reduced_dims(asked.named.get("dim"), values.dim())
    terms = math.prod(values.shape[axis] for axis in axes)
    if not values.dtype.is_floating_point or terms < 2:
        return None
    scale = 1.0 / terms if asked.name == "mean" else 1.0
    return (walk_deviation(_last(values, axes)) * scale).reshape(out.shape)


@row(REDUCTIONS, "var", "std")
def _variance(asked: Operation, out: Tensor) -> Tensor:
    """var and std: two-pass noise times rms(x)/std, which one-pass and Welford forms show."""
    values: Tensor = asked.named["self"]
    axes = reduced_dims(asked.named.get("dim"), values.dim())
    if not axes:
        return torch.zeros_like(out)
    flat = _last(values, axes)
    squares = (flat - flat.mean(-1, keepdim=True)).square_()
    variance, square = squares.mean(-1), flat.square().mean(-1)
    amplified = (square / torch.where(variance > 0, variance, 1.0)).sqrt_()
    walk = walk_deviation(squares) / flat.shape[-1]
    relative = amplified * walk / torch.where(variance > 0, variance, 1.0) + 2.0
    return out * relative.reshape(out.shape) * (0.5 if asked.name == "std" else 1.0)


@row(REDUCTIONS, "linalg_vector_norm", "norm")
def _norm(asked: Operation, out: Tensor) -> Tensor:
    terms = asked.named["self"].numel() / max(out.numel(), 1)
    return out * (0.5 * math.sqrt(terms / 3) + 2.0)


@row(REDUCTIONS, "prod")
def _prod(asked: Operation, out: Tensor) -> Tensor:
    return out * math.sqrt(asked.named["self"].numel() / max(out.numel(), 1))


@row(REDUCTIONS, "cumprod")
def _cumulated_product(asked: Operation, out: Tensor) -> Tensor:
    """The k-th product of a row has k factors, each rounded once, in whatever order.

    torch's own decomposition would multiply every prefix anew: memory by the square of a row.
    """
    if not out.dim():
        return out
    dim = int(asked.named["dim"])
    shape = [1] * out.dim()
    shape[dim] = -1
    factors = torch.arange(1, out.shape[dim] + 1, device=out.device, dtype=out.dtype)
    return out * factors.sqrt_().reshape(shape)


# Sums of products.


def product_factors(asked: Operation) -> tuple[Tensor, Tensor]:
    """Return both factors of a matrix product, terms last in the first one."""
    named = asked.named
    a, b = (
        next(named[key] for key in keys if key in named)
        for keys in (
            ("mat1", "batch1", "mat", "self"),
            ("mat2", "batch2", "vec", "tensor", "other"),
        )
    )
    if asked.name == "addbmm":  # sums over its batch as well
        return a.movedim(0, 1).flatten(1), b.flatten(0, 1)
    return a, b


def product_terms(asked: Operation) -> int:
    """Return how many products each element of a matrix product sums; 0 for other operations."""
    left = product_factors(asked)[0] if asked.name in PRODUCTS else None
    return int(left.shape[-1]) if left is not None and left.dim() else 0


def lean_of(asked: Operation) -> Tensor | None:
    """Return what a draw shows of tensor cores' lean on a matrix product, in u and signed.

    n mean_j P_j over the prefix sums after each of 16 chunks, times constants of this module; None
    for other operations and short sums. Broadcastable to the result.
    """
    if asked.name not in PRODUCTS:
        return None
    a, b = product_factors(asked)
    terms = a.shape[-1] if a.dim() else 0
    if terms < _MIN_PREFIX or a.is_complex():
        return None
    # The chunk c of 16 is part of 16 - c of the 16 prefix sums.
    chunk = torch.arange(terms, device=a.device) * _CHUNKS // terms
    weight = (_CHUNKS - chunk).to(a.dtype).mul_(_LEAN_SHOWN * _TENSOR_CORE_LEAN * terms / _CHUNKS)
    leaning = (a * weight) @ b
    return leaning if asked.name in _PLAIN_PRODUCTS else leaning * asked.named.get("alpha", 1)


def _product(a: Tensor, b: Tensor, tensor_cores: bool) -> Tensor | None:
    """Deviation of a @ b over the last axis of `a` and the last but one of `b`."""
    terms = a.shape[-1]
    if terms < 2:
        return None
    squares = a.square() @ b.square()
    if terms < _MIN_PREFIX:
        total = a @ b
        noise = _walk(total, squares, float(terms))
        return _at_least(noise, equal_drift(total, squares, float(terms)))
    repeated = repeats(a, b)
    prefix, walked, top = (torch.zeros_like(squares) for _ in range(3))
    right = -2 if b.dim() >= 2 else -1
    parts = zip(a.tensor_split(_CHUNKS, -1), b.tensor_split(_CHUNKS, right), strict=True)
    for left, other in parts:
        prefix += left @ other
        walked += prefix.square()
        if repeated is not None:
            top = torch.maximum(top, prefix.abs())
    walked *= terms / _CHUNKS
    noise = torch.maximum(_walk(prefix, squares, float(terms)).square_(), walked).sqrt_()
    noise = _at_least(noise, equal_drift(prefix, squares, float(terms)))
    if repeated is not None:
        noise = torch.maximum(noise, block_drift(repeated, prefix, top, terms))
    if tensor_cores and terms >= _MIN_LEAN:  # `walked` is n mean P^2, and mean|P| <= its root
        noise = torch.maximum(noise, walked.mul_(terms).sqrt_().mul_(_TENSOR_CORE_LEAN))
    return noise


@row(REDUCTIONS, "convolution")
def _convolution(asked: Operation, out: Tensor) -> Tensor:
    named, weight = asked.named, asked.named["weight"]
    plain = {**named, "input": named["input"].square(), "weight": weight.square(), "bias": None}
    terms: Tensor | float = float(weight[0].numel())
    if named.get("transposed"):  # strides and borders decide how many meet in an element
        ones = {"input": torch.ones_like(named["input"][:1]), "weight": torch.ones_like(weight)}
        terms = asked.op(**{**plain, **ones})
    return (_walk(out, asked.op(**plain), terms).square_() + out.square()).sqrt_()


# Sums scattered to rows.


@row(REDUCTIONS, *SCATTERED)
def _scattered(asked: Operation, out: Tensor) -> Tensor | None:
    """Deviation of a scattered sum, looking only at the rows that anything is added to."""
    named = asked.named
    if asked.name == "index_add" and named["dim"] in (0, -out.dim()) and sizeable(out):
        rows, places = torch.unique(named["index"].reshape(-1), return_inverse=True)
        if len(rows) * 2 <= len(out):
            few = {**named, "self": named["self"][rows], "index": places}
            spread = torch.zeros_like(out)
            spread[rows] = _scattered_rows(asked, few, out[rows])
            return spread
    if asked.name == "index_put" and not named.get("accumulate"):
        return None
    if asked.name == "scatter_reduce" and named.get("reduce") not in ("sum", "mean"):
        return None
    return _scattered_rows(asked, named, out)


def _scattered_rows(asked: Operation, named: Mapping[str, Any], out: Tensor) -> Tensor:
    """index_add, scatter_add, index_put: hit counts are the numbers of terms.

    The walk starts at what was there; where nothing is added there is no noise.
    """
    key = next(name for name in ("source", "src", "values", "grad_output") if name in named)
    start = named.get("self")
    plain = dict(named) if start is None else {**named, "self": torch.zeros_like(start)}
    start = torch.zeros_like(out) if start is None else start
    hits = asked.op(**{**plain, key: torch.ones_like(named[key])})
    squares = asked.op(**{**plain, key: named[key].square()})
    if "alpha" in named:
        squares = squares * named["alpha"]
    variance: Tensor = hits * (start.square() + out.square() / 3 + squares / 6)
    walked = _in_order(asked.name, named, named[key])
    if walked is not None:
        variance = torch.maximum(variance, walked)
    added = out - start if "self" in named else out
    return _at_least(variance.sqrt_(), equal_drift(added, squares, hits))


def _in_order(name: str, named: Mapping[str, Any], terms: Tensor) -> Tensor | None:
    """Return the sum of squared partial sums of each row, added up in the order given.

    Blocks that cancel have partial sums far above those of a random order. None for forms of
    the operation whose order of terms is not one index along axis 0.
    """
    if name != "index_add" or named["dim"] not in (0, -named["self"].dim()):
        return None
    index = named["index"].reshape(-1)
    if not len(index) or terms.dim() < 1 or terms.numel() > _MOST_ORDERED:
        return None
    order = index.argsort(stable=True)
    rows = index[order]
    prefix = terms[order].cumsum(0)
    first = torch.searchsorted(rows, rows)  # where each row's terms begin
    before = prefix[(first - 1).clamp_min(0)]
    before[first == 0] = 0
    squares = prefix.sub_(before).square_()
    return torch.zeros_like(named["self"]).index_add_(0, rows, squares)


# What torch adds on a GPU by atomics of the result's own type, each addition rounded, in another
# order each time; index_put and the gradient of an embedding sort first and add in float32.
BY_ATOMICS = ("index_add", "scatter_add", "scatter_reduce")

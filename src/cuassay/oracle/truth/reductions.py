"""Random-walk noise of reductions, and the deviations that depend on the inputs alone.

A sum of n terms in any order rounds each partial sum P_j once: variance u^2 * sum_j P_j^2. With
V = n * max(S^2/3 + Q/6, mean_j P_j^2) this covers sequential order (prefix sums after each of
16 chunks), and the expected partial sums of a random order (S the result, Q the sum of squared
terms), and the lanes of a vectorised loop. u * sqrt(n) * sum|x| would be sqrt(n) too large for
terms of mixed sign and would wave TF32 and float16 matrix products through.

Addends that repeat drift instead of walking (`trust_systematic`): the larger of both counts.

Tensor cores truncate. Hopper's `mma.sync` cuts 16 products and the running sum toward zero at
2^-25 of the largest and the result to float32, so that a sum of n terms shrinks by up to
TENSOR_CORE_LEAN n u mean_j |P_j|: 0.11 n u of a same-sign sum, measured for n of 4 096 to 65 536
by the exact rule and on an H200 (calibration of the oracle). Their matrix products carry it.

Deviations change little from draw to draw, so they are computed in the first and kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._ops import OpOverload

from cuassay.oracle.lift.operation import Operation, base_name
from cuassay.oracle.truth.random_errors import sizeable
from cuassay.oracle.truth.systematic import block_drift, drift, equal_drift

Named: TypeAlias = dict[str, Any]
Deviation: TypeAlias = Callable[[Named, Tensor, OpOverload], Tensor | None]
Product: TypeAlias = Callable[[Named, Tensor, bool], Tensor | None]

TENSOR_CORE_LEAN = 0.25  # of n u mean|P|; half of it where all terms have one sign
_CHUNKS = 16
_LANES = 8  # of a vectorised loop: 8 float32 in a 256-bit register, 8 bfloat16 in a 16-byte load
_MIN_PREFIX = 32  # fewer terms: the second form adds nothing
_MOST_ORDERED = 1 << 26  # elements; beyond, a random order's partial sums stand for any
_MIN_LEAN = 1024  # terms; below, the lean is under 8e-6: a thirtieth of float16's half spacing


def deviation_of(asked: Operation, out: Any, *, tensor_cores: bool = False) -> Tensor | None:
    """Return sqrt(V) (broadcastable to the first result), None for other operations.

    With `tensor_cores` matrix products may have been summed by them.
    """
    first = out[0] if isinstance(out, list | tuple) else out
    if not isinstance(first, Tensor) or not first.dtype.is_floating_point:
        return None
    if asked.name in PRODUCTS:
        return PRODUCTS[asked.name](asked.named, first, tensor_cores)
    find = REDUCTIONS.get(asked.name)
    return None if find is None else find(asked.named, first, asked.op)


def product_terms(asked: Operation) -> int:
    """Return how many products each element of a matrix product sums; 0 for other operations."""
    if asked.name not in PRODUCTS:
        return 0
    for key in ("mat1", "batch1", "mat", "self"):
        left = asked.named.get(key)
        if isinstance(left, Tensor) and left.dim():
            return int(left.shape[-1])
    return 0


def _walk(total: Tensor, squares: Tensor, terms: Tensor | float) -> Tensor:
    return (terms * (total.square() / 3 + squares / 6)).sqrt_()


def _sum(named: Named, out: Tensor, op: OpOverload) -> Tensor | None:
    values: Tensor = named["self"]
    if not values.dtype.is_floating_point:
        return None
    dims = named.get("dim")
    axes = reduced_dims(dims, values.dim())
    terms = 1
    for axis in axes:
        terms *= values.shape[axis]
    if terms < 2:
        return None
    scale = 1.0 / terms if base_name(op) == "mean" else 1.0
    return (walk_deviation(_last(values, axes)) * scale).reshape(out.shape)


def _last(values: Tensor, axes: Sequence[int]) -> Tensor:
    """Return `values` with the listed axes flattened into the last one."""
    kept = [axis for axis in range(values.dim()) if axis not in axes]
    return values.permute(*kept, *axes).reshape(*(values.shape[k] for k in kept), -1)


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
    walked = prefix.square_().mean(0) * terms
    walked = torch.maximum(walked, _strided(values))
    noise = torch.maximum(_walk(total, squares, float(terms)).square_(), walked).sqrt_()
    return _at_least(noise, drift(values, top))


def _strided(values: Tensor) -> Tensor:
    """Return n mean P^2 of a vectorised sum: every eighth term by one lane, then the lanes.

    Terms that cancel in order, as those of alternating sign, add up within a lane.
    """
    terms = values.shape[-1]
    rows = terms // _LANES
    lanes = values[..., : rows * _LANES].reshape(*values.shape[:-1], rows, _LANES)
    parts = torch.stack([part.sum(-2) for part in lanes.tensor_split(_CHUNKS, -2)])
    return parts.cumsum_(0).square_().mean((0, -1)) * terms


def _at_least(noise: Tensor, systematic: Tensor | None) -> Tensor:
    return noise if systematic is None else torch.maximum(noise, systematic)


def reduced_dims(dims: Any, rank: int) -> list[int]:
    """Return the dimensions that a reduction's `dim` argument means, all for None or []."""
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        return list(range(rank))
    listed = dims if isinstance(dims, list | tuple) else [dims]
    return sorted({int(dim) % max(rank, 1) for dim in listed}) if rank else []


def _product(a: Tensor, b: Tensor, tensor_cores: bool) -> Tensor | None:
    """Deviation of a @ b over the last axis of `a` and the last but one of `b`."""
    terms = a.shape[-1]
    if terms < 2:
        return None
    right = -2 if b.dim() >= 2 else -1
    squares = a.square() @ b.square()
    if terms < _MIN_PREFIX:
        total = a @ b
        return _at_least(
            _walk(total, squares, float(terms)), equal_drift(total, squares, float(terms))
        )
    prefix, walked, top = (torch.zeros_like(squares) for _ in range(3))
    parts = zip(a.tensor_split(_CHUNKS, -1), b.tensor_split(_CHUNKS, right), strict=True)
    for left, other in parts:
        prefix += left @ other
        walked += prefix.square()
        top = torch.maximum(top, prefix.abs())
    walked *= terms / _CHUNKS
    noise = torch.maximum(_walk(prefix, squares, float(terms)).square_(), walked).sqrt_()
    noise = _at_least(noise, equal_drift(prefix, squares, float(terms)))
    noise = _at_least(noise, block_drift(a, b, prefix, top))
    if tensor_cores and terms >= _MIN_LEAN:  # `walked` is n mean P^2, and mean|P| <= its root
        noise = torch.maximum(noise, walked.mul_(terms).sqrt_().mul_(TENSOR_CORE_LEAN))
    return noise


def _matmul(named: Named, out: Tensor, tensor_cores: bool) -> Tensor | None:
    other = named.get("mat2", named.get("vec2", named.get("vec", named.get("tensor"))))
    return _product(named["self"], other, tensor_cores) if isinstance(other, Tensor) else None


def _added(named: Named, out: Tensor, tensor_cores: bool) -> Tensor | None:
    """addmm and relatives: the product's noise and that of adding the bias."""
    a = named.get("mat1", named.get("batch1", named.get("mat")))
    b = named.get("mat2", named.get("batch2", named.get("vec")))
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return None
    product = _product(a, b, tensor_cores)
    bias: Tensor = (named["self"] * named.get("beta", 1)).square() + out.square()
    if product is None:
        return bias.sqrt_()
    total: Tensor = product.square() * named.get("alpha", 1) ** 2 + bias
    return total.sqrt()


def _scattered(named: Named, out: Tensor, op: OpOverload) -> Tensor | None:
    """Deviation of a scattered sum, looking only at the rows that anything is added to."""
    name = base_name(op)
    by_row = name == "index_add" and named["dim"] in (0, -out.dim())
    if not by_row or not sizeable(out):
        return _scattered_rows(named, out, op)
    rows, places = torch.unique(named["index"].reshape(-1), return_inverse=True)
    if len(rows) * 2 > len(out):
        return _scattered_rows(named, out, op)
    few = {**named, "self": named["self"][rows], "index": places}
    found = _scattered_rows(few, out[rows], op)
    if found is None:
        return None
    spread = torch.zeros_like(out)
    spread[rows] = found
    return spread


def _scattered_rows(named: Named, out: Tensor, op: OpOverload) -> Tensor | None:
    """index_add, scatter_add, index_put: hit counts are the numbers of terms.

    The walk starts at what was there; where nothing is added there is no noise.
    """
    key = next(name for name in ("source", "src", "values", "grad_output") if name in named)
    if base_name(op) == "index_put" and not named.get("accumulate"):
        return None
    if base_name(op) == "scatter_reduce" and named.get("reduce") not in ("sum", "mean"):
        return None
    start = named["self"] if "self" in named else torch.zeros_like(out)
    plain = dict(named)
    if "self" in plain:
        plain["self"] = torch.zeros_like(start)
    plain[key] = torch.ones_like(named[key])
    hits = op(**plain)
    plain[key] = named[key].square()
    squares = op(**plain)
    if "alpha" in named:
        squares = squares * named["alpha"]
    variance: Tensor = hits * (start.square() + out.square() / 3 + squares / 6)
    walked = _in_order(named, key, op)
    if walked is not None:
        variance = torch.maximum(variance, walked)
    added = out - start if "self" in named else out
    return _at_least(variance.sqrt_(), equal_drift(added, squares, hits))


def _in_order(named: Named, key: str, op: OpOverload) -> Tensor | None:
    """Return the sum of squared partial sums of each row, added up in the order given.

    Blocks that cancel have partial sums far above those of a random order. None for forms of
    the operation whose order of terms is not one index along axis 0.
    """
    if base_name(op) != "index_add" or named["dim"] not in (0, -named["self"].dim()):
        return None
    index, terms = named["index"].reshape(-1), named[key]
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


def _convolution(named: Named, out: Tensor, op: OpOverload) -> Tensor | None:
    values, weight = named["input"], named["weight"]
    plain = dict(named) | {"input": values.square(), "weight": weight.square(), "bias": None}
    terms = float(weight[0].numel()) if not named.get("transposed") else float(weight.shape[0])
    return (_walk(out, op(**plain), terms).square_() + out.square()).sqrt_()


def _norm(named: Named, out: Tensor, op: OpOverload) -> Tensor | None:
    values: Tensor = named["self"]
    factor = 0.5 * math.sqrt(values.numel() / max(out.numel(), 1) / 3) + 2.0
    return out * factor


def _prod(named: Named, out: Tensor, op: OpOverload) -> Tensor | None:
    return out * math.sqrt(named["self"].numel() / max(out.numel(), 1))


def _cumulated_product(named: Named, out: Tensor, op: OpOverload) -> Tensor | None:
    """The k-th product of a row has k factors, each rounded once, in whatever order.

    torch's own decomposition would multiply every prefix anew: memory by the square of a row.
    """
    if not out.dim():
        return out
    dim = int(named["dim"])
    shape = [1] * out.dim()
    shape[dim] = -1
    factors = torch.arange(1, out.shape[dim] + 1, device=out.device, dtype=out.dtype)
    return out * factors.sqrt_().reshape(shape)


def _variance(named: Named, out: Tensor, op: OpOverload) -> Tensor | None:
    """var and std: two-pass noise times rms(x)/std, which one-pass and Welford forms show."""
    values: Tensor = named["self"]
    axes = reduced_dims(named.get("dim"), values.dim())
    if not axes:
        return torch.zeros_like(out)
    flat = _last(values, axes)
    squares = (flat - flat.mean(-1, keepdim=True)).square_()
    variance, square = squares.mean(-1), flat.square().mean(-1)
    amplified = (square / torch.where(variance > 0, variance, 1.0)).sqrt_()
    walk = walk_deviation(squares) / flat.shape[-1]
    relative = amplified * walk / torch.where(variance > 0, variance, 1.0) + 2.0
    is_std = base_name(op).startswith("std")
    return out * relative.reshape(out.shape) * (0.5 if is_std else 1.0)


SCATTERED = ("index_add", "scatter_add", "index_put", "scatter_reduce", "embedding_dense_backward")
PRODUCTS: dict[str, Product] = {
    **dict.fromkeys(("mm", "bmm", "dot", "mv", "vdot"), _matmul),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), _added),
}
REDUCTIONS: dict[str, Deviation] = {
    **dict.fromkeys(("sum", "mean", "nansum"), _sum),
    **dict.fromkeys(SCATTERED, _scattered),
    "cumprod": _cumulated_product,
    "convolution": _convolution,
    **dict.fromkeys(("linalg_vector_norm", "norm"), _norm),
    "prod": _prod,
    **dict.fromkeys(("var", "std"), _variance),
}

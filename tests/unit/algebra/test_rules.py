"""Residues of exact numbers are those numbers: every rule against what the operation gives.

0, 1 and -1 have their true residues as inputs. Sums, products and quotients of them have to have
the true residue of the number that torch computes, whatever the operation is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("numba")

from cuassay.algebra import values as V
from cuassay.algebra.follow import expressions

Function = Callable[..., Any]
INDEX = torch.tensor([[2, 0, 1], [1, 1, 0]])


def signs(*shape: int, seed: int = 3) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=draw).float()


X, ROWS, IMAGE = signs(4, 6), signs(2, 3), signs(2, 4, 7, 6)
VOLUME, SIGNAL = signs(1, 2, 5, 4, 6), signs(2, 4, 9)
CASES: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "add with alpha": (lambda x, y: torch.add(x, y, alpha=3) - torch.rsub(x, y, alpha=2), (X, -X)),
    "quotient": (lambda x: (x + 2) / (3 + x * x) // 1 + x / 4, (X,)),
    "remainder": (lambda x: torch.remainder(5 * x, 3) + torch.fmod(5 * x, 3), (X,)),
    "clamp": (lambda x: torch.clamp(3 * x, -2, 1) + torch.clamp_min(x, 0.5), (X,)),
    "clamp by tensors": (lambda x, y: torch.clamp(4 * x, min=-2 + y, max=2 + y), (X, -X)),
    "hardtanh": (lambda x: F.hardtanh(3 * x, -2.0, 0.5) + F.relu6(9 * x), (X,)),
    "hardsigmoid": (lambda x: F.hardsigmoid(4 * x) * 6, (X,)),
    "hardswish": (lambda x: F.hardswish(2 * x) * 6, (X,)),
    "leaky": (lambda x: F.leaky_relu(x, 0.25) + F.threshold(x, 0.5, -7.0), (X,)),
    "prelu": (lambda x, w: F.prelu(3 * x, w), (SIGNAL, signs(4))),
    "shrink": (lambda x: F.softshrink(3 * x, 0.5) + F.hardshrink(x, 0.5), (X,)),
    "softsign": (lambda x: F.softsign(x), (X,)),
    "extremes": (lambda x, y: torch.maximum(2 * x, y) + torch.minimum(x, 3 * y), (X, X.roll(1))),
    "extremes along axes": (lambda x: x.amax(0) - (2 * x).min(0).values * 5 + x.max(), (X,)),
    "where": (lambda x: torch.where(x > 0, 5 * x, x - 2).masked_fill(x == 0, 9.0), (X,)),
    "powers": (lambda x: (x + 2) ** 3 + torch.pow(x + 3, -2) * 0 + (2 * x).square(), (X,)),
    "sums": (lambda x: x.sum(0) + x.mean(0) * 4 + x.cumsum(0)[-1] + x.sum(), (X,)),
    "products": (lambda x: (x + 2).prod(1) + (x + 2).cumprod(1)[:, -1], (X,)),
    "variance": (lambda x: x.var(0, correction=0) * 16 + torch.var_mean(x, 0)[1] * 4, (X,)),
    "products of matrices": (
        lambda x, y: x @ y.t() + torch.addmm(x @ y.t(), y, x.t(), beta=3, alpha=0.5),
        (X, X.flip(0)),
    ),
    "batches": (lambda x: torch.baddbmm(x @ x.mT, x, x.mT, beta=2, alpha=-1).sum(1), (SIGNAL,)),
    "einsum": (lambda x, y: torch.einsum("ab,cb->ca", x, y), (X, X + 0)),
    "linear": (lambda x, w, b: F.linear(x, w, b), (X, signs(5, 6, seed=5), signs(5, seed=6))),
    "addcmul": (
        lambda x, y: torch.addcmul(x, y, x + 2, value=3) + torch.addcdiv(x, y, x + 3, value=2) * 0,
        (X, -X),
    ),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.25), (X, X.roll(1))),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 1, 2), (SIGNAL, signs(3, 4, 3), signs(3))),
    "conv2d, groups": (
        lambda x, w: F.conv2d(x, w, None, (2, 1), 1, 1, 2),
        (IMAGE, signs(6, 2, 3, 2)),
    ),
    "conv3d": (lambda x, w: F.conv3d(x, w, None, 1, (1, 0, 1)), (VOLUME, signs(3, 2, 2, 3, 3))),
    "transposed": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2),
        (IMAGE, signs(4, 2, 3, 3), signs(4)),
    ),
    "transposed 1d": (
        lambda x, w: F.conv_transpose1d(x, w, None, 3, 1, 1),
        (SIGNAL, signs(4, 2, 4)),
    ),
    "transposed 3d": (
        lambda x, w: F.conv_transpose3d(x, w, None, 2),
        (VOLUME, signs(2, 3, 2, 2, 2)),
    ),
    "average": (
        lambda x: F.avg_pool2d(x, 2, 2, 1, True) * 12 + F.avg_pool2d(x, 2, 2, 1, True, False) * 12,
        (IMAGE,),
    ),
    "average 1d, 3d": (lambda x: F.avg_pool1d(x, 4, 2, 1), (SIGNAL,)),
    "average 3d": (lambda x: F.avg_pool3d(x, 2, 1, 1, divisor_override=4), (VOLUME,)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (2, 2)) * 48, (IMAGE[..., :6, :],)),
    "largest": (lambda x: F.max_pool2d(5 * x, 3, 2, 1, 2) + 1, (IMAGE[..., :6],)),
    "largest 1d": (lambda x: F.max_pool1d(x, 3, 2, 1), (SIGNAL,)),
    "largest 3d": (lambda x: F.max_pool3d(x, 2, 2, 1), (VOLUME,)),
    "adaptive largest": (lambda x: F.adaptive_max_pool2d(3 * x, 3), (IMAGE,)),
    "pads": (
        lambda x: F.pad(x, (1, 2), value=7.0)[:, 1:] + F.pad(x, (2, 0)).repeat(1, 1)[:, :1],
        (X,),
    ),
    "mirrors": (
        lambda x: F.pad(x, (1, 2), mode="reflect") + F.pad(x, (1, 2), mode="replicate"),
        (SIGNAL,),
    ),
    "moves": (
        lambda x: x.flip(1).roll(2, 0) + x.triu(1) - x.tril() + torch.cat([x[:2], x[2:]], 0),
        (X,),
    ),
    "gathers": (lambda x: x.gather(1, INDEX) + x[INDEX[0] % 2][:2, :3], (ROWS,)),
    "scatters": (
        lambda x: torch.zeros(2, 3).scatter_add(1, INDEX, x) + x.scatter(0, INDEX % 2, 4.0),
        (ROWS,),
    ),
    "index_add": (
        lambda x: torch.ones(4, 3).index_add(0, torch.tensor([3, 3]), x, alpha=2),
        (ROWS,),
    ),
    "index_put": (lambda x: torch.zeros(3).index_put((INDEX[0],), x[0], accumulate=True), (ROWS,)),
    "embedding": (lambda w: F.embedding(INDEX, w), (signs(3, 5),)),
    "sorted": (lambda x: x.sort(1).values + 2 * x.topk(6, 1).values + x.cummax(1).values, (X,)),
    "unfolded": (lambda x: F.unfold(x, 3, 1, 1, 2).sum(1), (IMAGE,)),
    "folded": (lambda x: F.fold(F.unfold(x, 2), (7, 6), 2), (IMAGE,)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (IMAGE,)),
    "shuffled": (
        lambda x: F.pixel_shuffle(x, 2).sum(1) + F.pixel_shuffle(3 * x, 2).amax(1),
        (IMAGE,),
    ),
    "mse": (lambda x, y: F.mse_loss(x, y) * 24, (X, X.roll(1))),
    "l1": (lambda x, y: F.l1_loss(x, y, reduction="sum"), (X, X.roll(1))),
    "smooth l1": (lambda x, y: F.smooth_l1_loss(x, 2 * y, reduction="sum"), (X, X.roll(1))),
    "huber": (lambda x, y: F.huber_loss(3 * x, y, delta=2.0, reduction="sum"), (X, X.roll(1))),
    "hinge": (lambda x, y: torch.clamp(1 - x * y, min=0).sum(), (X, X.roll(1))),
    "margin": (
        lambda x, y: F.hinge_embedding_loss(x, y.sign() + (y == 0), reduction="sum"),
        (X, X.roll(1)),
    ),
    "triplet": (lambda x: (x[0] - x[1]).abs().sum() + torch.linalg.vector_norm(x, 1), (X,)),
    "in place": (lambda x: x.mul_(3).add_(1).clamp_(-1, 3).sub_(x.sum()), (X,)),
    "half precision": (lambda x: (x.half() * 2 + x.bfloat16()).float(), (X,)),
    "dot": (lambda x: torch.dot(x[0], x[1]) + torch.mv(x, x[0]), (X,)),
    "nan": (lambda x: torch.nan_to_num(x, 3.0) + torch.sign(x) + torch.ceil(x / 2), (X,)),
    "eval norm": (
        lambda x, m: F.batch_norm(x, m, torch.full((4,), 4.0), m, m, False, 0.1, 0.0) * 2,
        (SIGNAL, signs(4)),
    ),
}


@pytest.mark.parametrize(("function", "inputs"), CASES.values(), ids=CASES)
def test_exact_numbers_have_their_residues(function: Function, inputs: tuple[Tensor, ...]) -> None:
    ((value, slots),) = expressions(function, inputs, seed=5)
    assert slots is not None
    exact = V.constants(value.double())
    assert torch.equal(slots, exact), [
        (float(one), int(a), int(b))
        for one, a, b in zip(value.flatten(), slots.flatten(), exact.flatten(), strict=True)
        if int(a) != int(b)
    ][:3]

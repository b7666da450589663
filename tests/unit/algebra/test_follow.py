"""References in residues: equal expressions are equal, others are not, whatever the operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("numba")

from cuassay.algebra.follow import expressions
from cuassay.errors import CannotJudgeError

Function = Callable[..., Tensor]


def _drawn(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(7)
    return tuple(torch.randn(*shape, generator=draw) for shape in shapes)


def share(one: Function, other: Function, *inputs: Any) -> float:
    """Return which share of the elements of two functions are the same expression."""
    ((_, left),) = expressions(one, inputs, seed=3)
    ((_, right),) = expressions(other, inputs, seed=3)
    assert left is not None
    assert right is not None
    return float(((left & 0xFFFFFFFF) == (right & 0xFFFFFFFF)).double().mean())


def _online(x: Tensor) -> Tensor:
    most, total = torch.full((x.shape[0],), -math.inf), torch.zeros(x.shape[0])
    for column in x.unbind(1):
        larger = torch.maximum(most, column)
        total = total * torch.exp(most - larger) + torch.exp(column - larger)
        most = larger
    return torch.exp(x - most[:, None]) / total[:, None]


def _in_place(x: Tensor) -> Tensor:
    found = torch.empty_like(x)
    found[:, ::2] = x[:, ::2] * 2
    found[:, 1::2] = x[:, 1::2]
    found[:, 1::2].add_(1)
    return found


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    hidden = ~torch.ones(5, 5).tril().bool()
    scores = (q @ k.transpose(-1, -2) / math.sqrt(8)).masked_fill(hidden, -math.inf)
    return F.softmax(scores, -1) @ v


def _windows(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    columns = F.unfold(x, 3, padding=1, stride=2).transpose(1, 2)
    return (columns @ w.reshape(4, -1).t() + b).transpose(1, 2).reshape(2, 4, 5, 5)


X = (4, 13)
IMAGE = (2, 3, 9, 9)
HEADS = (1, 2, 5, 8)
EQUAL: dict[str, tuple[Function, Function, tuple[tuple[int, ...], ...]]] = {
    "softmax without its maximum": (
        lambda x: F.softmax(x, -1), lambda x: x.exp() / x.exp().sum(-1, keepdim=True), (X,),
    ),
    "online softmax": (lambda x: F.softmax(x, -1), _online, (X,)),
    "layer norm by moments": (
        lambda x, w, b: F.layer_norm(x, (13,), w, b),
        lambda x, w, b: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(
            (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2 + 1e-5
        ) * w + b,
        (X, (13,), (13,)),
    ),
    "gelu by tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))), (X,),
    ),
    "gelu": (lambda x: F.gelu(x), lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))), (X,)),
    "product": (
        lambda x, m: x @ m, lambda x, m: sum(x[:, k : k + 1] * m[k : k + 1] for k in range(13)),
        (X, (13, 7)),
    ),
    "attention": (F.scaled_dot_product_attention,
        lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) / math.sqrt(8), -1) @ v, (HEADS,) * 3),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _causal,
        (HEADS,) * 3,
    ),
    "convolution": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), _windows,
        (IMAGE, (4, 3, 3, 3), (4,)),
    ),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w),
        lambda x, w: F.conv2d(x, w.flip(2, 3).transpose(0, 1), padding=2), (IMAGE, (3, 4, 3, 3)),
    ),
    "batch norm": (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: (x - x.mean((0, 2, 3), keepdim=True)) / torch.sqrt(
            x.var((0, 2, 3), unbiased=False, keepdim=True) + 1e-5
        ), (IMAGE,),
    ),
    "batch norm of running statistics": (
        lambda x, m, v: F.batch_norm(x, m, v * v),
        lambda x, m, v: (x - m[:, None, None]) / torch.sqrt(v[:, None, None] ** 2 + 1e-5),
        (IMAGE, (3,), (3,)),
    ),
    "instance norm": (lambda x: F.group_norm(x, 3), F.instance_norm, (IMAGE,)),
    "average pool": (
        lambda x: F.avg_pool2d(x, 3, padding=1),
        lambda x: F.conv2d(
            F.pad(x, (1, 1, 1, 1)).reshape(6, 1, 11, 11), torch.ones(1, 1, 3, 3) / 9, stride=3
        ).reshape(2, 3, 3, 3), (IMAGE,),
    ),
    "maximum pool": (
        lambda x: F.max_pool2d(x, 2),
        lambda x: x[:, :, :8, :8].reshape(2, 3, 4, 2, 4, 2).amax((3, 5)), (IMAGE,),
    ),
    "running sum": (
        lambda x: x.cumsum(1), lambda x: x @ torch.ones(13, 13).triu(), (X,),
    ),
    "running product": (
        lambda x: x.cumprod(1),
        lambda x: torch.stack([x[:, : k + 1].prod(1) for k in range(13)], 1), (X,),
    ),
    "norm": (
        lambda x: x / x.norm(dim=1, keepdim=True),
        lambda x: x * torch.rsqrt((x * x).sum(1, keepdim=True)), (X,),
    ),
    "softplus": (F.softplus, lambda x: torch.log1p(torch.exp(x)), (X,)),
    "selu": (
        F.selu, lambda x: 1.0507009873554805 * torch.where(
            x > 0, x, 1.6732632423543772 * (torch.exp(x) - 1)
        ), (X,),
    ),
    "cross entropy": (
        lambda x: F.cross_entropy(x, torch.tensor([1, 2, 0, 5])),
        lambda x: -F.log_softmax(x, 1)[torch.arange(4), torch.tensor([1, 2, 0, 5])].mean(), (X,),
    ),
    "huber": (
        F.smooth_l1_loss,
        lambda x, y: torch.where(
            (x - y).abs() < 1, 0.5 * (x - y) ** 2, (x - y).abs() - 0.5
        ).mean(), (X, X),
    ),
    "writes in place": (
        _in_place, lambda x: torch.where(torch.arange(13) % 2 == 0, x * 2, x + 1), (X,),
    ),
    "conversions": (lambda x: (x.bfloat16() * 3).float(), lambda x: x * 3, (X,)),
    "hidden columns": (
        lambda x: torch.softmax(torch.where(torch.arange(13) < 9, x, -math.inf), -1),
        lambda x: F.pad(torch.softmax(x[:, :9], -1), (0, 4)), (X,),
    ),
    "largest three": (
        lambda x: torch.topk(x, 3)[0], lambda x: x.sort(1, descending=True)[0][:, :3], (X,),
    ),
    "embedding bag": (
        lambda w: torch.zeros(3, 5).index_add(0, torch.tensor([0, 2, 0, 1]), w),
        lambda w: torch.stack([w[0] + w[2], w[3], w[1]]), ((4, 5),),
    ),
}  # fmt: skip
DIFFERENT: dict[str, tuple[Function, Function, tuple[tuple[int, ...], ...]]] = {
    "a left-out term": (
        lambda x, m: x @ m, lambda x, m: x[:, :12] @ m[:12], (X, (13, 7)),
    ),
    "another epsilon": (
        lambda x: F.layer_norm(x, (13,)), lambda x: F.layer_norm(x, (13,), eps=1e-6), (X,),
    ),
    "the wrong axis": (lambda x: F.softmax(x, 0), lambda x: F.softmax(x, 1), (X,)),
    "swapped operands": (lambda x, y: x - y, lambda x, y: y - x, (X, X)),
    "no soft cap": (lambda x: 30 * torch.tanh(x / 30), lambda x: x, (X,)),
    "the sign of a root": (lambda x: torch.sqrt(x * x), lambda x: x, (X,)),
    "unbiased variance": (lambda x: x.var(1), lambda x: x.var(1, unbiased=False), (X,)),
    "a masked term that is nearly 0": (
        lambda x: torch.softmax(torch.where(torch.arange(13) < 9, x, -math.inf), -1),
        lambda x: torch.softmax(torch.where(torch.arange(13) < 9, x, -1e9), -1), (X,),
    ),
    "a factor of the seventh digit": (lambda x: x * 0.044715, lambda x: x * 0.0447151, (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_two_forms_of_one_expression_are_equal_everywhere(name: str) -> None:
    one, other, shapes = EQUAL[name]
    assert share(one, other, *_drawn(*shapes)) == 1.0


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_expression_is_seen(name: str) -> None:
    one, other, shapes = DIFFERENT[name]
    assert share(one, other, *_drawn(*shapes)) < 0.8


def test_one_wrong_element_is_one_element() -> None:
    def wrong(x: Tensor) -> Tensor:
        found = x * 2
        found[1, 3] += x[0, 0]
        return found

    assert share(lambda x: x * 2, wrong, *_drawn(X)) == pytest.approx(51 / 52)


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: x / x.sum().item(),
        lambda x: x * torch.tensor(x.sum().tolist()),
        lambda x: x + torch.rand(13),
        lambda x: F.dropout(x, 0.5, training=True),
        lambda x: torch.special.bessel_j0(x),
        lambda x: torch.linalg.inv(x[:, :4]),
    ],
    ids=["item", "tolist", "random", "dropout", "function", "factorisation"],
)
def test_what_has_no_residues_is_refused(reference: Function) -> None:
    with pytest.raises(CannotJudgeError, match=r"residues are not known.*test_follow\.py:\d+"):
        expressions(reference, _drawn(X), seed=1)

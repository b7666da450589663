"""Which lengths a reference adds up over, by what its operations do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuassay.oracle.reduced_sizes import ReducedSizes, reduced_sizes

_ROWS, _COLUMNS = 5, 7


def _of(fn: Callable[..., Tensor], *inputs: Tensor) -> ReducedSizes:
    return reduced_sizes(fn, inputs, ["y"])


def _rmsnorm(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize(
    "fn",
    [
        _rmsnorm,
        lambda x: torch.softmax(x, -1),
        lambda x: F.log_softmax(x, dim=-1),
        lambda x: F.layer_norm(x, (_COLUMNS,)),
        lambda x: x / torch.linalg.vector_norm(x, dim=-1, keepdim=True),
        lambda x: x.cumsum(-1),
        lambda x: x - torch.logsumexp(x, 1, keepdim=True),
        lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
    ],
)
def test_an_axis_that_is_reduced_and_still_there_is_seen(fn: Callable[..., Tensor]) -> None:
    seen = _of(fn, torch.randn(_ROWS, _COLUMNS))
    assert _COLUMNS in seen.lengths
    assert _ROWS not in seen.lengths


@pytest.mark.parametrize(
    "fn", [lambda x: x * 2, torch.exp, lambda x: x.amax(-1), lambda x: x.sort(-1).values]
)
def test_what_adds_nothing_up_reduces_nothing(fn: Callable[..., Tensor]) -> None:
    assert not _of(fn, torch.randn(_ROWS, _COLUMNS)).lengths


def test_a_sum_of_everything_reduces_every_axis() -> None:
    assert _of(lambda x: x / x.sum(), torch.ones(_ROWS, _COLUMNS)).lengths >= {_ROWS, _COLUMNS}


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (torch.matmul, ((5, 7), (7, 3))),
        (torch.bmm, ((2, 5, 7), (2, 7, 3))),
        (lambda a, b: torch.addmm(torch.zeros(3), a, b), ((5, 7), (7, 3))),
        (lambda a, b: F.linear(a, b, torch.zeros(3)), ((5, 7), (3, 7))),
        (lambda a, b: torch.einsum("ik,kj->ij", a, b), ((5, 7), (7, 3))),
    ],
)
def test_a_product_reduces_its_inner_length(fn: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    seen = _of(fn, *(torch.randn(shape) for shape in shapes))
    assert seen.lengths & {5, 7, 3} == {7}


def test_scores_of_a_sequence_against_itself_grow_with_its_square() -> None:
    def attention(x: Tensor) -> Tensor:
        return torch.softmax(x @ x.transpose(-1, -2), -1) @ x

    seen = _of(attention, torch.randn(2, _ROWS, _COLUMNS))
    assert _ROWS in seen.lengths
    assert seen.squared == {_ROWS}


def test_operations_are_counted() -> None:
    def loop(x: Tensor) -> Tensor:
        total = x[0]
        for row in x[1:]:
            total = total + row
        return total

    short, long = (_of(loop, torch.ones(rows, 3)).operations for rows in (4, 40))
    assert long >= short + 36

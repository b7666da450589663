"""Sums over ranks in 16 bits, as NCCL makes them: right under `mixed`, and nothing coarser is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.compare.outputs import measure
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import Truth
from cuassay.ranks.together import run_together
from tests.support.oracle_cases import normal, spec

_COLUMNS = 3000
_SPEC = spec("bfloat16", "columns")


def _reference(x: Tensor) -> Tensor:
    return x.float().sum(0).to(x.dtype)


def _as_written_in_16_bits(x: Tensor) -> Tensor:
    return torch.sum(x, dim=(0,))


def _by_collective(x: Tensor) -> Tensor:
    def of(rank: int) -> Tensor:
        y = x[rank].clone()
        dist.all_reduce(y)
        return y

    found = run_together(of, x.shape[0])[0]
    assert isinstance(found, Tensor)
    return found


@cache
def _input(ranks: int, cancels: bool) -> Tensor:
    x = normal(ranks, _COLUMNS, seed=ranks)
    if cancels:
        x[-1] = normal(_COLUMNS, seed=7) * 2.0**-7 - x[:-1].sum(0)
    return x.bfloat16()


@cache
def _truth(
    ranks: int, cancels: bool, precision: Precision, reference: Callable[[Tensor], Tensor]
) -> Truth:
    x = _input(ranks, cancels)
    family = family_of(precision, DType.BFLOAT16, ranks=ranks)
    return make_truth(reference, [x], [_SPEC], seed=5, family=family)


def _sum(x: Tensor, first: int, store: Callable[[Tensor], Tensor]) -> Tensor:
    order = [(first + rank) % x.shape[0] for rank in range(x.shape[0])]
    total = x[order[0]]
    for rank in order[1:]:
        total = store(total.float() + x[rank].float())
    return total.to(x.dtype)


def _in_16_bits(x: Tensor) -> Tensor:
    return x.bfloat16()


def _in_8_bits(x: Tensor) -> Tensor:
    return x.to(torch.float8_e4m3fn).float()


def _cut_off(x: Tensor) -> Tensor:
    return (x.float().contiguous().view(torch.int32) & ~0xFFFF).view(torch.float32)


@pytest.mark.parametrize("reference", [_reference, _as_written_in_16_bits, _by_collective])
@pytest.mark.parametrize("cancels", [False, True])
@pytest.mark.parametrize(("ranks", "first"), [(3, 0), (4, 0), (4, 1), (4, 3), (8, 0), (8, 2)])
def test_sums_of_parts_are_stored_in_16_bits(
    ranks: int, first: int, cancels: bool, reference: Callable[[Tensor], Tensor]
) -> None:
    found = _sum(_input(ranks, cancels), first, _in_16_bits)

    def within(precision: Precision) -> bool:
        return measure(found, _truth(ranks, cancels, precision, reference).outputs[0]).passed

    assert within(Precision.MIXED)
    # A sum of 16-bit tensors as written is a collective's; one of float32 tensors is not.
    assert within(Precision.STRICT) is (reference is not _reference)


@pytest.mark.parametrize("store", [_in_8_bits, _cut_off])
@pytest.mark.parametrize("cancels", [False, True])
def test_coarser_sums_of_parts_are_wrong(cancels: bool, store: Callable[[Tensor], Tensor]) -> None:
    found = _sum(_input(4, cancels), 0, store)
    assert not measure(found, _truth(4, cancels, Precision.MIXED, _reference).outputs[0]).passed


def test_two_ranks_round_once() -> None:
    found = _sum(_input(2, False), 0, _in_16_bits)
    assert measure(found, _truth(2, False, Precision.STRICT, _reference).outputs[0]).passed


def test_sums_over_other_axes_stay_in_float32() -> None:
    """A sum over four tokens is none over ranks: nothing travels between its terms."""
    x = _input(4, False)
    found = _sum(x, 0, _in_16_bits)
    for reference, given, ranks in (
        (_reference, x, 0),
        (_reference, x, 2),
        (lambda x: x.float().sum(-1).to(x.dtype), x.T.contiguous(), 4),
    ):
        family = family_of(Precision.MIXED, DType.BFLOAT16, ranks=ranks)
        truth = make_truth(reference, [given], [_SPEC], seed=5, family=family)
        assert not measure(found, truth.outputs[0]).passed

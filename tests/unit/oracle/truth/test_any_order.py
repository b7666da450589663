"""A reference that adds narrow numbers by atomics: each run rounds in another order.

As torch's index_add_ does on a GPU in bfloat16; on a CPU it rounds once, so that the runs as
written are made here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch

from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import OutputTruth
from cuassay.oracle.truth.runs import ReferenceRunner
from tests.support.oracle_cases import truth_of

_ROWS, _TERMS, _COLUMNS = 32, 256, 1024


def _inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    start = torch.randn(_ROWS, _COLUMNS, generator=generator).bfloat16()
    terms = torch.randn(_TERMS, _COLUMNS, generator=generator).bfloat16()
    return [start, terms, torch.randint(0, _ROWS, (_TERMS,), generator=generator)]


def _reference(start: torch.Tensor, terms: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return start.clone().index_add_(0, index, terms)


def _atomics(order: int, *, without: int = -1) -> torch.Tensor:
    """Return the sums in an order of their own, rounded after each term."""
    start, terms, index = _inputs()
    for place in torch.randperm(_TERMS, generator=torch.Generator().manual_seed(order)).tolist():
        if place != without:
            start[index[place]] += terms[place]
    return start


def _truth(monkeypatch: pytest.MonkeyPatch, orders: Iterator[int]) -> OutputTruth:
    def as_written(*_: object) -> tuple[torch.Tensor, ...]:
        return (_atomics(next(orders)),)

    monkeypatch.setattr(ReferenceRunner, "as_written", as_written)
    return truth_of(_reference, _inputs(), "bfloat16", "rows", "columns")


def _accepted(truth: OutputTruth, answer: torch.Tensor) -> bool:
    found = compare(answer, truth)
    assert not found.undecided
    return found.passed


def test_every_order_of_a_reference_that_has_none_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truth = _truth(monkeypatch, itertools.count())
    assert all(_accepted(truth, _atomics(order)) for order in range(100, 106))
    assert _accepted(truth, truth.value.bfloat16()), "one rounding at the end"
    for term in (0, 17, 255):
        assert not _accepted(truth, _atomics(200, without=term)), "a term is left out"


def test_an_order_that_is_always_the_same_earns_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = _truth(monkeypatch, itertools.repeat(0))
    assert _accepted(truth, _atomics(0))
    assert not all(_accepted(truth, _atomics(order)) for order in range(100, 106))

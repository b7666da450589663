"""A reference that adds narrow numbers by atomics: each run rounds in another order.

As torch's index_add_ does on a GPU in bfloat16. On a CPU it adds in one order and rounds once:
what a GPU does is known from the operation.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import OutputTruth
from tests.support.oracle_cases import truth_of

_ROWS, _TERMS, _COLUMNS = 32, 256, 1024


def _inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    start = torch.randn(_ROWS, _COLUMNS, generator=generator).bfloat16()
    terms = torch.randn(_TERMS, _COLUMNS, generator=generator).bfloat16()
    return [start, terms, torch.randint(0, _ROWS, (_TERMS,), generator=generator)]


def _atomics(order: int, *, without: int = -1) -> torch.Tensor:
    """Return the sums in an order of their own, rounded after each term."""
    start, terms, index = _inputs()
    for place in torch.randperm(_TERMS, generator=torch.Generator().manual_seed(order)).tolist():
        if place != without:
            start[index[place]] += terms[place]
    return start


def _in_float32(start: torch.Tensor, terms: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return start.float().index_add_(0, index, terms.float()).bfloat16()


def _accepted(truth: OutputTruth, answer: torch.Tensor) -> bool:
    found = compare(answer, truth)
    assert not found.undecided
    return found.passed


@pytest.mark.parametrize("name", ["index_add", "scatter_add", "scatter_reduce"])
def test_every_order_of_a_reference_that_has_none_on_a_gpu_is_right(name: str) -> None:
    truth = truth_of(_REFERENCES[name], _inputs(), "bfloat16", "rows", "columns")
    assert all(_accepted(truth, _atomics(order)) for order in range(100, 106))
    assert _accepted(truth, truth.value.bfloat16()), "one rounding at the end"
    for term in (0, 17, 255):
        assert not _accepted(truth, _atomics(200, without=term)), "a term is left out"


@pytest.mark.parametrize("name", ["in float32", "index_put"])
def test_a_reference_that_rounds_once_earns_no_room(name: str) -> None:
    truth = truth_of(_REFERENCES[name], _inputs(), "bfloat16", "rows", "columns")
    assert _accepted(truth, _in_float32(*_inputs()))
    assert not all(_accepted(truth, _atomics(order)) for order in range(100, 106))


def _hot(terms_of_first: int) -> list[torch.Tensor]:
    """Return sums of many terms of one sign in the first row, and of few in the others."""
    generator = torch.Generator().manual_seed(4)
    count = terms_of_first + 176
    terms = torch.randn(count, 64, generator=generator).abs().bfloat16()
    index = torch.zeros(count, dtype=torch.int64)
    index[terms_of_first:] = torch.randint(1, _ROWS, (176,), generator=generator)
    return [torch.zeros(_ROWS, 64, dtype=torch.bfloat16), terms, index]


@pytest.mark.parametrize("name", ["index_add", "scatter_add", "scatter_reduce"])
def test_a_sum_that_stops_to_grow_on_a_gpu_is_right(name: str) -> None:
    start, terms, index = _hot(600)
    answer = start.clone()
    for place in torch.randperm(len(index), generator=torch.Generator().manual_seed(9)).tolist():
        answer[index[place]] += terms[place]
    truth = truth_of(_REFERENCES[name], _hot(600), "bfloat16", "rows", "columns")
    assert float((answer[0] / truth.value[0]).mean()) < 0.9, "this sum did not stop to grow"
    assert _accepted(truth, answer)
    assert _accepted(truth, truth.value.bfloat16())
    assert not _accepted(truth, answer.index_fill(0, torch.tensor([5]), 0.0)), "a row is left out"
    wide = truth_of(_REFERENCES["in float32"], _hot(600), "bfloat16", "rows", "columns")
    assert not _accepted(wide, answer)


def test_where_the_reference_loses_most_of_a_sum_nothing_is_decided() -> None:
    truth = truth_of(_REFERENCES["index_add"], _hot(1024), "bfloat16", "rows", "columns")
    assert "trusted implementations err by" in truth.ill_conditioned


def _wide(index: torch.Tensor, terms: torch.Tensor) -> torch.Tensor:
    return index[:, None].expand_as(terms)


_REFERENCES: dict[str, Callable[..., torch.Tensor]] = {
    "index_add": lambda start, terms, index: start.clone().index_add_(0, index, terms),
    "scatter_add": lambda start, terms, index: start.scatter_add(0, _wide(index, terms), terms),
    "scatter_reduce": lambda start, terms, index: start.scatter_reduce(
        0, _wide(index, terms), terms, "sum"
    ),
    "index_put": lambda start, terms, index: start.index_put((index,), terms, accumulate=True),
    "in float32": _in_float32,
}

"""What a call returned, matched with the outputs of its problem by name or by position."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from cuassay.judge.decide.structure import matched
from cuassay.model.trace import ResultItem
from tests.support.fake_trial import axis, problem, tensor

_PROBLEM = problem(
    "two",
    axes=[axis("rows")],
    inputs=[tensor("x", "rows")],
    outputs=[tensor("y", "rows"), tensor("total")],
    workloads=[{"rows": 3}],
)
_SHAPES = ((3,), ())


class _Run:
    """Returns tensors by their buffer."""

    def tensor(self, item: ResultItem) -> torch.Tensor:
        return torch.full(item.shape, float(item.buffer))


def _item(**changes: Any) -> ResultItem:
    given = {
        "kind": "tensor",
        "type_name": "Tensor",
        "dtype": "float32",
        "shape": (3,),
        "buffer": 7,
    }
    return ResultItem(**{**given, **changes})


_Y, _TOTAL = _item(), _item(shape=(), buffer=8)


def _matched(*items: ResultItem) -> list[torch.Tensor | str]:
    run: Any = _Run()
    return matched(_PROBLEM, _SHAPES, run, items)


def test_position_decides_where_nothing_is_named() -> None:
    y, total = _matched(_Y, _TOTAL)
    assert isinstance(y, torch.Tensor)
    assert isinstance(total, torch.Tensor)
    assert (y.tolist(), total.item()) == ([7.0] * 3, 8.0)


def test_names_decide_where_all_are_outputs() -> None:
    named = [dataclasses.replace(_TOTAL, name="total"), dataclasses.replace(_Y, name="y")]
    y, total = _matched(*named)
    assert isinstance(y, torch.Tensor)
    assert isinstance(total, torch.Tensor)
    assert (tuple(y.shape), total.item()) == ((3,), 8.0)
    assert _matched(named[1])[1] == "output 'total' was not returned"


def test_another_count_is_said_of_every_output() -> None:
    assert _matched(_Y) == ["expected 2 outputs (y, total), got 1"] * 2
    assert _matched() == ["expected 2 outputs (y, total), got 0"] * 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": "other", "type_name": "ndarray"}, "output 'y' is ndarray, expected a tensor"),
        ({"shape": (3, 1)}, "output 'y' has shape [3, 1], expected [3]"),
        ({"dtype": "float64"}, "output 'y' is float64, expected float32"),
        ({"buffer": -1}, "output 'y' is too large to be read back ([3])"),
        ({"kind": "scalar", "scalar": 1.0}, "output 'y' is Tensor, expected a tensor"),
    ],
)
def test_what_does_not_fit_is_said_in_words(changes: dict[str, Any], why: str) -> None:
    y, total = _matched(_item(**changes), _TOTAL)
    assert y == why
    assert isinstance(total, torch.Tensor)


def test_a_number_stands_for_a_tensor_without_axes() -> None:
    _, total = _matched(_Y, _item(kind="scalar", type_name="float", scalar=2.5, shape=()))
    assert isinstance(total, torch.Tensor)
    assert (total.dtype, total.item()) == (torch.float32, 2.5)

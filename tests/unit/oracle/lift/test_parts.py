"""Products of a large factor in parts: the parts together are the product."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuassay.oracle.lift import inputs
from cuassay.oracle.lift.parts import parts_of, piece

_ATEN: Any = torch.ops.aten


def _some(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    ("op", "args", "large"),
    [
        (_ATEN.mm.default, [_some(30, 4), _some(4, 3)], 0),
        (_ATEN.mm.default, [_some(3, 4), _some(4, 30)], 1),
        (_ATEN.bmm.default, [_some(9, 2, 4), _some(9, 4, 5)], 1),
        (_ATEN.addmm.default, [_some(30), _some(3, 4), _some(4, 30)], 2),
        (_ATEN.addmm.default, [_some(3, 30), _some(3, 4), _some(4, 30)], 2),
        (_ATEN.baddbmm.default, [_some(1, 2, 5), _some(9, 2, 4), _some(9, 4, 5)], 1),
        (_ATEN.baddbmm.default, [_some(9, 2, 5), _some(9, 2, 4), _some(9, 4, 5)], 2),
    ],
)
def test_the_parts_of_a_product_make_the_product(
    monkeypatch: pytest.MonkeyPatch, op: Any, args: list[torch.Tensor], large: int
) -> None:
    monkeypatch.setattr(inputs, "BORROWED_ELEMENTS", 40)
    parts = parts_of(op, args, lambda value: value is args[large])
    assert parts is not None
    assert 1 <= parts.step < parts.length
    assert parts.saved == args[large].numel() - 40
    made = []
    for start in range(0, parts.length, parts.step):
        given = [
            piece(value, parts.split.arguments[place], start, parts.step, length=parts.length)
            if place in parts.split.arguments
            else value
            for place, value in enumerate(args)
        ]
        made.append(op(*given))
    assert torch.allclose(torch.cat(made, parts.split.result), op(*args))


def test_what_fits_or_is_no_product_has_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BORROWED_ELEMENTS", 40)
    args = [_some(30, 4), _some(4, 3)]
    assert parts_of(_ATEN.mm.default, args, lambda value: False) is None
    assert parts_of(_ATEN.add.Tensor, args, lambda value: True) is None
    assert parts_of(_ATEN.mm.default, [_some(3, 4), _some(4, 3)], lambda value: True) is None
    single = [_some(1, 80), _some(80, 1)]  # the axis is too short
    assert parts_of(_ATEN.mm.default, single, lambda value: True) is None

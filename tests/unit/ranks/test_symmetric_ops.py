"""torch's operators on symmetric memory: what each gives on two ranks, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

from cuassay.sandbox.guest.interface import RankRaisedError
from tests.unit.ranks.test_symmetric import Call, called  # noqa: F401  # a fixture

Made = Callable[[torch.Tensor, str], Any]
# Both ranks have three elements: 1 on rank 0, 2 on rank 1.
_OPERATORS: dict[str, tuple[Made, list[list[float]]]] = {
    "one shot": (
        lambda x, name: torch.ops.symm_mem.one_shot_all_reduce(_memory(x), "sum", name),
        [[3.0] * 3] * 2,
    ),
    "one shot of a copy": (
        lambda x, name: torch.ops.symm_mem.one_shot_all_reduce_copy_out(
            _memory(0 * x), x, "sum", name, torch.empty_like(x)
        ),
        [[3.0] * 3] * 2,
    ),
    "two shot": (
        lambda x, name: torch.ops.symm_mem.two_shot_all_reduce_(_memory(x), "sum", name),
        [[3.0] * 3] * 2,
    ),
    "multimem": (
        lambda x, name: torch.ops.symm_mem.multimem_one_shot_all_reduce_out(
            _memory(x), "sum", name, torch.empty_like(x)
        ),
        [[3.0] * 3] * 2,
    ),
    "to the root": (
        lambda x, name: torch.ops.symm_mem.multimem_one_shot_reduce_out(
            _memory(x), "sum", 1, name, torch.zeros_like(x)
        ),
        [[0.0] * 3, [3.0] * 3],
    ),
    "rows": (
        lambda x, name: torch.ops.symm_mem.reduce_scatter_out(
            _memory(x[:2] * torch.tensor([1.0, 10.0])), name, False, torch.empty(1)
        ),
        [[3.0], [30.0]],
    ),
    "columns": (
        lambda x, name: torch.ops.symm_mem.reduce_scatter_out(
            _memory(torch.stack([x[:2], 10 * x[:2]])), name, True, torch.empty(2, 1)
        ).view(-1),
        [[3.0, 30.0]] * 2,
    ),
    "gathered": (
        lambda x, name: torch.ops.symm_mem.multimem_all_gather_out(
            x, name, _memory(torch.zeros(6))
        ),
        [[1.0] * 3 + [2.0] * 3] * 2,
    ),
    "gathered from any memory": (
        lambda x, name: torch.ops.symm_mem._low_contention_all_gather(x, name),
        [[1.0] * 3 + [2.0] * 3] * 2,
    ),
    "mean": (
        lambda x, name: torch.ops.symm_mem._low_contention_reduce_scatter(x[:2], "avg", name),
        [[1.5]] * 2,
    ),
    "product": (
        lambda x, name: torch.ops.symm_mem.fused_all_gather_matmul(
            x.view(1, 3), [torch.ones(3, 1)], 0, name
        )[1][0].view(-1),
        [[3.0, 6.0]] * 2,
    ),
}


def _memory(x: torch.Tensor) -> torch.Tensor:
    made = symmetric.empty(x.shape, dtype=x.dtype, device=x.device)
    return made.copy_(x)


def _name() -> str:
    return dist.group.WORLD.group_name  # type: ignore[union-attr]


@pytest.mark.parametrize("operator", _OPERATORS)
def test_an_operator_gives_what_torchs_gives(called: Call, operator: str) -> None:  # noqa: F811
    made, wanted = _OPERATORS[operator]
    assert called(lambda x: made(x, _name())) == wanted


def test_parts_of_a_view_begin_where_it_does(called: Call) -> None:  # noqa: F811
    def second(x: torch.Tensor) -> Any:
        whole = _memory(x * torch.tensor([1.0, 10.0, 100.0]))
        return torch.ops.symm_mem.one_shot_all_reduce(whole[1:], "sum", _name())

    assert called(second) == [[30.0, 300.0]] * 2


def test_other_memory_and_other_reductions_are_refused(called: Call) -> None:  # noqa: F811
    def plain(x: torch.Tensor) -> Any:
        return torch.ops.symm_mem.one_shot_all_reduce(x, "sum", _name())

    def largest(x: torch.Tensor) -> Any:
        return torch.ops.symm_mem.one_shot_all_reduce(_memory(x), "max", _name())

    with pytest.raises(RankRaisedError, match=r"allocate it with symmetric_memory\.empty"):
        called(plain)
    with pytest.raises(RankRaisedError, match="only 'sum' is supported"):
        called(largest)

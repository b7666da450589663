"""How many lanes of checks a trial on a GPU runs, by how long the driver takes for a context."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.judge.prepare import executors_beside


async def _is_built() -> bool:
    return True


@pytest.mark.parametrize(
    ("context_s", "wished", "lanes"),
    [(0.5, None, 2), (4.0, None, 0), (4.0, 2, 2)],
)
def test_lanes_beside_the_first_begin_where_contexts_are_quick(
    context_s: float, wished: int | None, lanes: int
) -> None:
    builds = SimpleNamespace(done=True, context_s=context_s)
    executor: Any = SimpleNamespace(pool=SimpleNamespace(builds=builds, wait_built=_is_built))
    bench: Any = SimpleNamespace(
        on_gpu=True,
        quick=False,
        plan=SimpleNamespace(beside=wished),
        lanes_beside=2,
        candidate="kernel",
        optional=lambda what, make: make(),
        executor=lambda candidate, **given: (candidate, given["lazy"]),
    )
    opened: tuple[Any, ...] = executors_beside(bench, executor)
    assert opened == (("kernel", True),) * lanes

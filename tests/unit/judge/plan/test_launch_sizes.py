"""Sizes after which launches change: other kernels or blocks, and grids that stop to grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cuassay.judge.plan import launch_sizes
from cuassay.judge.plan.launch_sizes import Launched, LaunchProbe, changes
from cuassay.judge.proofs.launch_samples import CALL_S
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem
from tests.support.fake_trial import axis, problem, tensor

SMALL = {"rows": 5, "cols": 7}


def made() -> Problem:
    return problem(
        "matrix",
        axes=[axis("rows", maximum=1 << 20), axis("cols")],
        inputs=[tensor("x", "rows", "cols", dtype=DType.FLOAT32)],
        outputs=[tensor("y", "rows", "cols", dtype=DType.FLOAT32)],
        workloads=[{"rows": 16, "cols": 32}],
    )


def found(blocks: Callable[[int], Launched], *, full: bool = False) -> list[int]:
    asked: list[int] = []

    def at(sizes: Mapping[str, int]) -> Launched:
        assert sizes["cols"] == SMALL["cols"]
        asked.append(sizes["rows"])
        return blocks(sizes["rows"])

    of = made()
    rows = next(one for one in of.var_axes() if one.name == "rows")
    values = list(changes(of, rows, SMALL, at))
    assert {is_full for _, is_full in values} <= {full}
    assert len(asked) <= 14 + 4 * 20
    return [size for size, _ in values]


def test_another_kernel_above_a_size_is_found_to_the_step() -> None:
    assert found(lambda n: ((("few" if n <= 777 else "many"), (128, 1, 1), n),)) == [777]


def test_another_block_and_a_second_launch_are_other_paths() -> None:
    assert found(lambda n: (("k", (64 if n <= 100 else 256, 1, 1), n),)) == [100]
    assert found(lambda n: (("k", (64, 1, 1), n),) * (1 if n <= 5000 else 2)) == [5000]


def test_a_grid_that_stops_to_grow_is_found_where_it_is_full() -> None:
    assert found(lambda n: (("k", (128, 1, 1), min(n, 1056)),), full=True) == [1056]
    assert found(lambda n: (("k", (128, 1, 1), min(-(-n // 128), 80)),), full=True) == [
        79 * 128 + 1
    ]


@pytest.mark.parametrize("blocks", [lambda n: n, lambda n: -(-n // 64), lambda n: 132])
def test_a_grid_that_follows_a_size_or_never_does_shows_nothing(
    blocks: Callable[[int], int],
) -> None:
    assert found(lambda n: (("k", (128, 1, 1), blocks(n)),)) == []


def test_where_nothing_is_launched_nothing_is_found() -> None:
    assert found(lambda n: ()) == []


def test_each_of_some_thresholds_is_found() -> None:
    def paths(n: int) -> Launched:
        return ((f"kernel {sum(n > limit for limit in (16, 300, 40_000))}", (32, 1, 1), n),)

    assert found(paths) == [16, 300, 40_000]


def test_a_call_that_compiles_for_long_is_ended_and_what_was_found_before_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []
    now_s = 0.0  # no call takes longer for what else this machine does

    def launched(
        self: LaunchProbe, case: object, sizes: Mapping[str, int], *, call_s: float
    ) -> Launched:
        nonlocal now_s
        limits.append(call_s)
        if sizes["cols"] > 100:
            now_s += call_s + 0.01  # as long as it takes to end it
            return ()
        return ((("few" if sizes["rows"] <= 777 else "many"), (128, 1, 1), sizes["rows"]),)

    monkeypatch.setattr(LaunchProbe, "_launched", launched)
    monkeypatch.setattr(launch_sizes, "time", SimpleNamespace(monotonic=lambda: now_s))
    trial: Any = SimpleNamespace(
        problem=made(), cases=lambda purpose: [SimpleNamespace(axes=SMALL)]
    )
    named = LaunchProbe(trial, cast(Any, None)).sizes(limit_s=30.0, call_s=0.05)
    assert [one.value for one in named] == [777]
    assert limits[0] == CALL_S  # it builds the candidate
    assert limits[1:] == [0.05] * len(limits[1:])
    assert LaunchProbe(trial, cast(Any, None)).sizes(limit_s=0.0) == ()

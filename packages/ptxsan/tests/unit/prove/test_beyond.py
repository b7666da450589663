"""How far launch laws hold: calls beyond those that they are fitted to confirm or end them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ptxsan.prove.beyond import confirmed_laws, gives
from ptxsan.prove.law import Axis, Launched, Observation, Sum, laws
from ptxsan.prove.machine import AxisDomain, Domain

Grid = Callable[[int, int], int]
NEAR = [(n, m) for n in (1, 2, 5, 9, 16, 33, 100, 257) for m in (1, 3, 8, 64)]
FAR = [(n, m) for n in (1, 700, 1 << 12, 1 << 16, 1 << 20) for m in (1, 200, 1 << 10)]
ELEMENTS = (Sum(((1, (Axis("n"), Axis("m"))),)),)
DOMAIN = Domain(axes={"n": AxisDomain(), "m": AxisDomain()}, elements=ELEMENTS)


def call(n: int, m: int, grid: Grid, *, base: int = 1 << 40, **other: Any) -> Observation:
    """Return a launch of `grid` blocks on a buffer of n*m floats, and the number n."""
    launched: dict[str, Any] = {
        "module": "", "kernel": "k", "grid": (grid(n, m), 1, 1), "block": (1, 1, 1),
        "shared_bytes": 0, "regions": ((base, 4 * n * m),), "names": ("x",),
        "arguments": (struct.pack("<Q", base), struct.pack("<i", n)),
    }  # fmt: skip
    return Observation(
        sizes={"n": n, "m": m},
        launches=(Launched(**{**launched, **other}),),
    )


def seen(grid: Grid, sizes: Sequence[tuple[int, int]], **other: Any) -> list[Observation]:
    return [call(n, m, grid, **other) for n, m in sizes]


def plain(n: int, m: int) -> int:
    return n * m


def test_a_law_that_all_calls_follow_is_confirmed_up_to_the_largest() -> None:
    found = confirmed_laws(seen(plain, NEAR), seen(plain, FAR, base=1 << 46), DOMAIN)
    ((_, reach),) = found.reaches
    assert reach is not None
    assert not found.orphans
    assert not reach.ends
    assert (reach.beyond, reach.elements) == (len(FAR), 1 << 30)


@pytest.mark.parametrize(
    ("threshold", "grid"),
    [
        ("elements", lambda n, m: n * m + (n * m > 1 << 20)),
        ("an axis", lambda n, m: n * m + (n > 1 << 12)),
        ("another buffer", lambda n, m: n * m * (1 if n * m < 1 << 20 else 2)),
    ],
)
def test_a_law_ends_before_the_first_call_that_contradicts_it(threshold: str, grid: Grid) -> None:
    found = confirmed_laws(seen(grid, NEAR), seen(grid, FAR), DOMAIN)
    ((_, reach),) = found.reaches
    assert reach is not None
    assert reach.ends
    for n, m in FAR:
        held = grid(n, m) == plain(n, m)
        assert not reach.covers({"n": n, "m": m}) or held, (threshold, n, m)
    assert reach.covers({"n": 257, "m": 64})
    assert {tuple(one.sizes.values()) for one in found.orphans} >= {
        (n, m) for n, m in FAR if grid(n, m) != plain(n, m)
    }


def test_a_grid_that_stops_to_grow_beyond_is_fitted_again() -> None:
    def grid(n: int, m: int) -> int:
        return min(n * m, 1 << 20)

    found = confirmed_laws(seen(grid, NEAR), seen(grid, FAR), DOMAIN)
    ((law, reach),) = found.reaches
    assert reach is not None
    assert not found.orphans
    assert "min" in str(law.launches[0].grid[0])


def test_a_grid_that_grows_beyond_is_fitted_to_all_calls() -> None:
    def grid(n: int, m: int) -> int:
        return -(-n // 4096)

    near = [*NEAR[:2], (5000, 1), *NEAR[2:]]  # the third call confirms, and is no part of a fit
    assert laws(seen(grid, near))[0].launches[0].grid[0] is None
    found = confirmed_laws(seen(grid, near), seen(grid, FAR), DOMAIN)
    ((law, reach),) = found.reaches
    assert reach is not None
    assert str(law.launches[0].grid[0]) == "ceil(n / 4096)"


def test_an_axis_of_which_one_size_was_seen_is_bounded_by_it() -> None:
    found = confirmed_laws(seen(plain, [(n, 9) for n in range(1, 40)]), [], DOMAIN)
    ((_, reach),) = found.reaches
    assert reach is not None
    assert reach.covers({"n": 1000, "m": 9})
    assert not reach.covers({"n": 1000, "m": 10})


@pytest.mark.parametrize(
    "other",
    [
        {"shared_bytes": 4},
        {"block": (2, 1, 1)},
        {"cluster": (2, 1, 1)},
        {"kernel": "another"},
        {"arguments": (struct.pack("<Q", 1 << 40), struct.pack("<i", 6))},
        {"arguments": (struct.pack("<Q", (1 << 40) + 4), struct.pack("<i", 5))},
        {"arguments": (struct.pack("<Q", 0), struct.pack("<i", 5))},
        {"regions": ((1 << 40, 4 * 5 * 7 - 4),)},
        {"unwritten": (True,)},
        {"names": ("y",)},
    ],
)
def test_what_is_launched_otherwise_is_not_given(other: dict[str, Any]) -> None:
    (law,) = laws(seen(plain, NEAR))
    assert gives(law, call(5, 7, plain), known=("x",))
    assert not gives(law, call(5, 7, plain, **other), known=("x",))


def test_a_call_that_another_law_explains_does_not_contradict_one() -> None:
    def of(sizes: Sequence[tuple[int, int]]) -> list[Observation]:
        return [call(n, m, plain, kernel="vector" if n % 4 == 0 else "scalar") for n, m in sizes]

    near = [(n, m) for n in range(1, 33) for m in (1, 3)]
    found = confirmed_laws(of(near), of(FAR), DOMAIN)
    assert not found.orphans
    assert all(reach is not None and not reach.ends for _, reach in found.reaches)

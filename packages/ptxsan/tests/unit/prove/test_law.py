"""Laws of launches: fitted to some sizes, right at others, absent where there is none."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from ptxsan.prove.law import (
    Fitter,
    Launched,
    Lawless,
    Number,
    Observation,
    Place,
    Scalar,
    evaluated,
    laws,
)

Law = Callable[..., int]
LAWS: dict[str, Law] = {
    "constant": lambda n, m, k: 256,
    "one axis": lambda n, m, k: m,
    "multiple and constant": lambda n, m, k: 4 * n + 12,
    "product of three": lambda n, m, k: 8 * n * m * k,
    "ceiling": lambda n, m, k: -(-n // 128),
    "ceiling of a product": lambda n, m, k: -(-n * m // 256),
    "floor": lambda n, m, k: n // 4,
    "length after a stride": lambda n, m, k: (n - 3) // 2 + 1,
    "product of ceilings": lambda n, m, k: -(-n // 32) * -(-m // 64),
    "rounded up": lambda n, m, k: -(-k // 32) * 32,
    "power of two": lambda n, m, k: 1 << (k - 1).bit_length(),
    "limited above": lambda n, m, k: min(-(-n // 256), 4),
    "sum of products": lambda n, m, k: n * m + 2 * k + 5,
}


def drawn(count: int, seed: int = 1) -> list[dict[str, int]]:
    """Return sizes of three axes, with ceilings and powers of two among them."""
    draw = random.Random(seed)
    pool = (4, 5, 7, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 777, 1025)
    return [{"n": draw.choice(pool) * draw.choice((1, 7)), "m": draw.choice(pool),
             "k": draw.choice(pool)} for _ in range(count)]  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_a_law_is_found_and_holds_at_sizes_that_were_not_seen(name: str) -> None:
    rows = drawn(60)
    found = Fitter(list(rows), 40).fit([LAWS[name](**row) for row in rows])
    assert found is not None
    for row in drawn(400, seed=2):
        assert evaluated(found, row) == LAWS[name](**row), f"{found} at {row}"


def test_what_the_confirming_rows_contradict_is_no_law() -> None:
    rows = drawn(60)
    values = [row["n"] * 4 for row in rows]
    values[-1] += 1
    assert Fitter(list(rows), 40).fit(values) is None


def test_values_without_a_pattern_have_no_law() -> None:
    draw = random.Random(3)
    rows = drawn(60)
    assert Fitter(list(rows), 40).fit([draw.randrange(1000) for _ in rows]) is None


def observed(n: int, m: int, *, module: str = "one", base: int = 1 << 20) -> Observation:
    """Return a call that launches one kernel on two tensors of n*m floats."""
    size = 4 * n * m
    second = base + size + 512
    return Observation(
        sizes={"n": n, "m": m},
        launches=(
            Launched(
                module=module,
                kernel="k",
                grid=(-(-n * m // 256), 1, 1),
                block=(256, 1, 1),
                shared_bytes=0,
                arguments=(
                    struct.pack("<Q", base), struct.pack("<Q", second + 4 * m),
                    struct.pack("<i", n * m), struct.pack("<f", 1e-5),
                    struct.pack("<Qi4x", base, m),
                ),
                regions=((base, size), (second, size)),
            ),
        ),
    )  # fmt: skip


def test_the_law_of_a_call_tells_pointers_scalars_and_lengths() -> None:
    draw = random.Random(4)
    calls = [observed(draw.randrange(1, 300), draw.randrange(1, 300)) for _ in range(40)]
    (law,) = laws(calls)
    (launch,) = law.launches
    sizes = {"n": 1000, "m": 77}
    assert law.fitted + law.confirmed == 40
    assert [evaluated(one, sizes) for one in launch.grid if one is not None] == [301, 1, 1]
    assert [evaluated(one, sizes) for one in launch.regions if one is not None] == [308000] * 2
    assert launch.words[0, 0, 8] == Place(0, Number(0))
    second = launch.words[1, 0, 8]
    assert isinstance(second, Place)
    assert (second.region, evaluated(second.offset, sizes)) == (1, 4 * 77)
    count, inside = launch.words[2, 0, 4], launch.words[4, 8, 4]
    assert isinstance(count, Scalar)
    assert isinstance(inside, Scalar)
    assert evaluated(count.law, sizes) == 77000
    assert evaluated(inside.law, sizes) == 77
    assert launch.words[4, 0, 8] == Place(0, Number(0))
    assert str(launch.grid[0]) in ("ceil(n*m / 256)", "ceil(1*n*m / 256)", "ceil(1*m*n / 256)",
                                   "ceil(m*n / 256)")  # fmt: skip


def test_calls_that_launch_other_code_are_a_class_of_their_own() -> None:
    calls = [observed(n, 16 * m, module="even") for n in (3, 5, 9) for m in (1, 2, 5, 8)]
    calls += [observed(n, 16 * m + 1, module="odd") for n in (3, 5, 9) for m in (1, 2, 5)]
    even, odd = laws(calls)
    assert even.launches[0].module == "even"
    assert even.scope.multiples == odd.scope.multiples == {}
    assert {str(one) for one in even.scope.conditions} >= {"m a multiple of 16"}
    assert {str(one) for one in odd.scope.conditions} >= {"m not a multiple of 16"}
    assert all(one.holds({"n": 3, "m": 32}) for one in even.scope.conditions)
    assert all(one.holds({"n": 3, "m": 33}) for one in odd.scope.conditions)


def test_without_an_argument_that_tells_them_apart_classes_are_bounded_by_axes() -> None:
    calls = [observed(n, 8 * m, module="wide") for n in (3, 5, 9) for m in (4, 5, 8)]
    calls += [observed(n, 8 * m + 4, module="narrow") for n in (3, 5, 9) for m in (0, 1, 2)]
    wide, narrow = laws(calls)
    assert wide.scope.bounds["m"] == (32, None)
    assert narrow.scope.bounds["m"] == (None, 20)


def test_memory_that_two_arguments_share_at_some_sizes_only_has_no_law() -> None:
    def shared(n: int) -> Observation:
        second = (1 << 20) if n % 2 else (1 << 24)
        return Observation(
            sizes={"n": n},
            launches=(
                Launched(
                    module="m", kernel="k", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0,
                    arguments=(struct.pack("<Q", 1 << 20), struct.pack("<Q", second)),
                    regions=((1 << 20, 4 * n), (1 << 24, 4 * n)),
                ),
            ),
        )  # fmt: skip

    (law,) = laws([shared(n) for n in range(1, 20)])
    assert isinstance(law.launches[0].words[1, 0, 8], Lawless)

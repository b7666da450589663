"""Laws of sizes: what a few probes say, and nothing where a size contradicts it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cuassay.inputs.size_law import OutOfBudget, SizeProbe, size_law


def _law(
    fails: Callable[[int], bool | None], *, start: int, low: int = 1, cap: int = 4096, step: int = 1
) -> str:
    probe = SizeProbe(name="n", start=start, low=low, cap=cap, step=step, fails=fails)
    return size_law(probe)


@pytest.mark.parametrize(
    ("fails", "start", "words"),
    [
        (lambda n: True, 1, "any n"),
        (lambda n: n >= 5, 5, "any n >= 5"),
        (lambda n: n % 128 != 0, 1, "only when n mod 128 != 0"),
        (lambda n: n % 64 == 0, 64, "only when n mod 64 = 0"),
        (lambda n: n % 128 > 64, 65, "only when n mod 128 > 64"),
        (lambda n: n <= 37, 1, "only when n <= 37"),
    ],
)
def test_a_law_is_found_from_the_smallest_failing_size(
    fails: Callable[[int], bool], start: int, words: str
) -> None:
    assert _law(fails, start=start) == words


def test_sizes_are_said_in_elements_where_the_axis_has_a_step() -> None:
    assert _law(lambda n: n >= 48, start=3, step=16, cap=256) == "any n >= 48"


def test_a_law_that_another_size_contradicts_is_not_said() -> None:
    # Probes at 6, 13, 69, 256, 517 and 4101 fail; sizes from 1000 to 3000 are never probed for it.
    assert _law(lambda n: n >= 5 and not 1000 <= n <= 3000, start=5) == ""


def test_a_few_sizes_are_listed_where_no_rule_explains_them() -> None:
    words = _law(lambda n: n in (7, 8), start=7)
    assert words.startswith("n = 7, 8, not 6")


def test_what_a_spent_budget_leaves_is_what_was_seen() -> None:
    left = [2]

    def fails(n: int) -> bool:
        if not left[0]:
            raise OutOfBudget
        left[0] -= 1
        return n > 9

    assert _law(fails, start=10) == "n = 10, 11, not 9"


def test_a_size_runs_once_and_one_that_cannot_tell_is_not_known() -> None:
    runs: list[int] = []

    def fails(n: int) -> bool | None:
        runs.append(n)
        return None if n == 3 else True

    probe = SizeProbe(name="n", start=1, low=1, cap=8, step=1, fails=fails)
    assert [probe.ask(size) for size in (2, 2, 3)] == [True, True, None]
    assert runs == [2, 3]
    assert (probe.failing, probe.passing) == ([2], [])

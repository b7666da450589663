"""How tensors lie over ranks."""

from __future__ import annotations

from cuassay.model import serial
from cuassay.model.problem import Problem
from cuassay.model.ranks import Lies, Ranks, parts


def test_names_say_where_a_tensor_lies() -> None:
    ranks = Ranks(own=("a",), split=("b",), agreed=("y",))
    assert [ranks.lies(name) for name in "aby"] == [Lies.OWN, Lies.SPLIT, Lies.OWN]
    assert ranks.lies("w") is Lies.WHOLE


def test_the_last_parts_are_short_or_empty() -> None:
    assert list(parts(5, 4)) == [(0, 2), (2, 4), (4, 5), (5, 5)]


def test_a_problem_carries_them_through_json() -> None:
    from cuassay.catalog import registry

    problem = registry.get("all_gather")
    again = serial.loads(Problem, serial.dumps(problem))
    assert again.ranks == problem.ranks

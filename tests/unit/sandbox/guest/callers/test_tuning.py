"""Which configurations stand for all: each value of each parameter occurs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cuassay.sandbox.guest.callers.tuning import covering


@dataclass(frozen=True)
class Config:
    """What an autotuner's configuration has to offer here."""

    values: Mapping[str, object]

    def all_kwargs(self) -> Mapping[str, object]:
        return self.values


def made(**values: object) -> Config:
    return Config(values)


def test_each_value_that_the_first_has_not_occurs_in_few() -> None:
    sizes = [
        made(BLOCK_M=m, BLOCK_N=n, num_warps=w)
        for m in (32, 64, 128)
        for n in (16, 32, 64)
        for w in (4, 8)
    ]
    found = covering(sizes)
    assert len(found) == 2
    for name in ("BLOCK_M", "BLOCK_N", "num_warps"):
        assert {one.values[name] for one in (sizes[0], *found)} == {
            one.values[name] for one in sizes
        }


def test_a_list_of_equal_or_single_configurations_is_its_first() -> None:
    one = made(BLOCK=64)
    assert covering([one]) == [one]
    assert covering([one, made(BLOCK=64)]) == [one]


def test_one_value_a_configuration_needs_them_all() -> None:
    sizes = [made(BLOCK=size) for size in (64, 128, 256, 512)]
    assert covering(sizes) == sizes[1:]

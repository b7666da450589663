"""Limits of launches by architecture: NVIDIA's documented figures."""

from __future__ import annotations

import pytest

from ptxsan import limits
from ptxsan.limits import Limit


def _refused(**given: object) -> Limit | None:
    plain: dict[str, object] = {
        "grid": (1, 1, 1), "block": (32, 1, 1), "static_bytes": 0, "dynamic_bytes": 0, "arch": 90
    }  # fmt: skip
    found = limits.refusal("k", {}, **{**plain, **given})  # type: ignore[arg-type]
    return None if found is None else found.limit


@pytest.mark.parametrize(
    ("arch", "threads", "static", "registers", "blocks"),
    [
        (80, 1024, 0, 32, 2), (80, 32, 0, 32, 32), (86, 1024, 0, 32, 1), (86, 768, 0, 32, 2),
        (75, 1024, 0, 32, 1), (90, 256, 0, 255, 1), (90, 256, 48 << 10, 32, 4),
        (89, 32, 0, 32, 24), (90, 1025, 0, 32, 0), (90, 33, 0, 32, 32),
    ],
)  # fmt: skip
def test_blocks_of_a_multiprocessor(
    arch: int, threads: int, static: int, registers: int, blocks: int
) -> None:
    found = limits.resident_blocks(
        threads=threads, static_bytes=static, dynamic_bytes=0, registers=registers, arch=arch
    )
    assert found == blocks


def test_a_kernel_may_have_fewer_threads_than_the_device() -> None:
    given = {"static_bytes": 0, "dynamic_bytes": 0, "registers": 32, "arch": 90}
    assert limits.resident_blocks(threads=256, most_threads=128, **given) == 0
    assert limits.resident_blocks(threads=128, most_threads=128, **given) == 16


def test_static_shared_memory_takes_from_the_default_of_the_dynamic_one() -> None:
    assert limits.default_dynamic_bytes(0) == 49152
    assert limits.default_dynamic_bytes(64) == 49088
    assert limits.default_dynamic_bytes(1 << 20) == 0


def test_a_cooperative_launch_has_all_its_blocks_there_at_once() -> None:
    most = 132 * 32
    assert _refused(grid=(most, 1, 1), cooperative_registers=32) is None
    assert _refused(grid=(most + 1, 1, 1), cooperative_registers=32) is Limit.COOPERATIVE
    assert _refused(grid=(most + 1, 1, 1)) is None
    full = {"dynamic_bytes": 200 << 10, "allowed_bytes": 200 << 10, "cooperative_registers": 32}
    assert _refused(grid=(132, 1, 1), **full) is None
    assert _refused(grid=(133, 1, 1), **full) is Limit.COOPERATIVE


def test_an_unknown_architecture_has_the_limits_of_the_one_before_it() -> None:
    assert limits.chip(91) == limits.chip(90)
    assert limits.chip(30) == limits.chip(50)

"""A matrix instruction as one integer: every field comes back, and one too large is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")

from ptxsan.numerics.dot import SumRule
from ptxsan.runtime import packing as P


def test_every_field_comes_back() -> None:
    packed = P.pack(
        (16, 256, 64),
        (4, 2, 128),
        (5, 4, 1),
        SumRule(block=16, fraction_bits=25),
        P.SHADOW | P.TRANSPOSE_B,
    )
    fields = {
        P.EIGHTS_M: 2,
        P.EIGHTS_N: 32,
        P.K: 64,
        P.OF_A: 4,
        P.OF_B: 2,
        P.OF_C: 128,
        P.KIND_A: 5,
        P.KIND_B: 4,
        P.KIND_C: 1,
        P.LOG_BLOCK: 4,
        P.FRACTION: 25,
        P.FLAGS: P.SHADOW | P.TRANSPOSE_B,
    }
    assert {which: P.field(packed, which) for which in fields} == fields
    assert 0 <= packed < 1 << 63  # it is passed as a signed integer of 64 bits


def test_a_rule_of_two_steps_sets_its_flag_and_no_rule_is_a_block_of_one() -> None:
    halves = P.pack(
        (8, 8, 32), (0, 0, 0), (4, 4, 1), SumRule(block=8, fraction_bits=13, halves=True), 0
    )
    plain = P.pack((8, 8, 32), (0, 0, 0), (0, 0, 0), None, P.SATFINITE)
    assert P.field(halves, P.FLAGS) == P.HALVES
    assert P.field(plain, P.FLAGS) == P.SATFINITE
    assert P.field(plain, P.LOG_BLOCK) == 0


@pytest.mark.parametrize("shape", [(64, 8, 16), (16, 512, 16), (16, 8, 128)])
def test_a_field_that_does_not_fit_is_refused_rather_than_spilt(
    shape: tuple[int, int, int],
) -> None:
    with pytest.raises(AssertionError):
        P.pack(shape, (0, 0, 0), (0, 0, 0), None, 0)

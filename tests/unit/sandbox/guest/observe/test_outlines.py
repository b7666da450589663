"""Inputs of calls that fit no memory: large legal integers, and strides of packed parts."""

from __future__ import annotations

import pytest
import torch

from cuassay.model.domain import Domain, Index, IntegerRange, Lengths, Offsets, Opaque, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.sandbox.guest.observe.outlines import largest_values, packed_strides

_SIZES = {"rows": 1000, "vocab": 1 << 20, "tokens": 5000}


def _spec(domain: Domain, *shape: str, dtype: DType = DType.INT64) -> TensorSpec:
    return TensorSpec(name="ids", dtype=dtype, shape=shape or ("rows",), domain=domain)


def _values(domain: Domain, *shape: str, dtype: DType = DType.INT64) -> torch.Tensor:
    found = largest_values(_spec(domain, *shape, dtype=dtype), _SIZES)
    assert found is not None
    return found


def test_indices_begin_with_the_last_one_and_lie_in_the_upper_three_quarters() -> None:
    found = _values(Index(axis="vocab"))
    size = _SIZES["vocab"]
    assert int(found[0]) == size - 1
    assert size // 4 - 1 <= int(found.min()) < int(found.max()) < size
    assert len(set(found.tolist())) == len(found)  # spread, not one value


def test_unique_indices_count_down_as_far_as_the_axis_reaches() -> None:
    found = _values(Index(axis="vocab", unique=True))
    assert found.tolist()[:2] == [_SIZES["vocab"] - 1, _SIZES["vocab"] - 2]
    assert len(set(found.tolist())) == 1000
    assert largest_values(_spec(Index(axis="rows", unique=True), "tokens"), _SIZES) is None
    assert largest_values(_spec(Index(axis="vocab")), {**_SIZES, "vocab": 0}) is None


def test_lengths_offsets_and_ranges_end_at_their_largest_value() -> None:
    assert set(_values(Lengths(axis="tokens")).tolist()) == {5000}
    offsets = _values(Offsets(axis="tokens"))
    assert (int(offsets[0]), int(offsets[-1])) == (0, 5000)
    assert bool((offsets.diff() >= 0).all())
    ranged = _values(IntegerRange(low=0, high=7), dtype=DType.INT32)
    assert ranged.dtype is torch.int32
    assert set(ranged.tolist()) == {7}


@pytest.mark.parametrize(
    "spec",
    [
        _spec(Real(), dtype=DType.FLOAT32),
        _spec(Opaque()),
        _spec(Index(axis="vocab"), "vocab", "rows"),  # too many to be in memory
    ],
)
def test_of_other_inputs_there_are_no_values(spec: TensorSpec) -> None:
    assert largest_values(spec, _SIZES) is None


def test_three_packed_parts_lie_beside_each_other_in_the_last_axis() -> None:
    strides = packed_strides((4, 5, 8))
    whole = torch.arange(4 * 5 * 24).reshape(4, 5, 24)
    assert strides == whole[..., :8].stride()
    assert packed_strides(()) == ()

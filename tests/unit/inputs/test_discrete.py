"""What servers pass: lengths, ragged offsets, slots and packed codes keep their rules."""

from __future__ import annotations

import pytest
import torch

from cuassay.errors import ProblemError
from cuassay.inputs.fills import kinds_for, make
from cuassay.model.case import Fill
from cuassay.model.device import CPU
from cuassay.model.domain import Domain, Index, Lengths, Offsets, Packed, Swizzled
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec

SIZES = {"rows": 400, "tokens": 96, "ends": 9, "slots": 500}
LENGTHS = Lengths(axis="tokens", page=16)


def drawn(domain: Domain, kind: str, *, dtype: DType = DType.INT32, shape: str = "rows",
          seed: int = 1) -> torch.Tensor:  # fmt: skip
    spec = TensorSpec(name="x", dtype=dtype, shape=(shape,), domain=domain)
    values = {"values": (3.0, 700.0, -5.0)} if kind == "explicit" else {}
    return make(spec, Fill(kind=kind, parameters=values), sizes=SIZES, seed=seed, device=CPU)


def kinds(domain: Domain, dtype: DType = DType.INT32) -> tuple[str, ...]:
    return kinds_for(TensorSpec(name="x", dtype=dtype, shape=("rows",), domain=domain))


@pytest.mark.parametrize("low", [0, 1, 20])
@pytest.mark.parametrize("kind", kinds(LENGTHS))
def test_lengths_lie_between_the_least_and_the_size_of_the_axis(kind: str, low: int) -> None:
    found = drawn(Lengths(axis="tokens", low=low, page=16), kind)
    assert found.dtype == torch.int32
    assert low <= int(found.min())
    assert int(found.max()) <= SIZES["tokens"]


def test_plain_lengths_have_empty_full_and_single_rows_and_those_beside_a_page() -> None:
    found = set(drawn(LENGTHS, "uniform").tolist())
    assert {0, 1, 95, 96} <= found
    edges = {page * 16 + beside for page in range(1, 7) for beside in (-1, 0, 1)}
    assert len(found & edges) >= 3
    assert len(found) > 20, "other lengths too"


def test_one_long_row_lies_among_short_ones() -> None:
    found = sorted(drawn(LENGTHS, "one_long").tolist())
    assert found[-1] == 96
    assert found[-2] <= 2


@pytest.mark.parametrize("rows", [2, 3, 4, 9])
@pytest.mark.parametrize("kind", ["edges", "one_long"])
def test_a_small_batch_has_an_empty_row_and_a_full_one_under_every_seed(
    kind: str, rows: int
) -> None:
    places = set()
    for seed in range(20):
        spec = TensorSpec(name="x", dtype=DType.INT32, shape=("batch",), domain=LENGTHS)
        sizes = {**SIZES, "batch": rows}
        found = make(spec, Fill(kind=kind), sizes=sizes, seed=seed, device=CPU).tolist()
        assert {0, 96} <= set(found), found
        places.add(found.index(0))
    assert len(places) > 1


def test_few_edges_and_one_row_are_no_fault() -> None:
    spec = TensorSpec(name="x", dtype=DType.INT32, shape=("batch",), domain=LENGTHS)
    for tokens, rows in ((0, 3), (1, 3), (96, 1), (96, 0)):
        for kind in ("edges", "one_long", "uniform"):
            sizes = {"tokens": tokens, "batch": rows}
            found = make(spec, Fill(kind=kind), sizes=sizes, seed=3, device=CPU)
            assert found.shape == (rows,)
            assert all(0 <= length <= tokens for length in found.tolist())


def test_ragged_offsets_have_an_empty_sequence_under_every_seed() -> None:
    for seed in range(20):
        found = drawn(Offsets(axis="tokens"), "ragged", shape="ends", seed=seed)
        assert 0 in found.diff().tolist()


def test_lengths_that_the_axis_has_no_room_for_are_one_message() -> None:
    with pytest.raises(ProblemError, match="lengths of 97 or more, but its axis has size 96"):
        drawn(Lengths(axis="tokens", low=97), "uniform")


@pytest.mark.parametrize("kind", ["uniform", "even", "ragged"])
@pytest.mark.parametrize("short", [False, True])
def test_offsets_rise_in_steps_and_end_where_they_may(kind: str, short: bool) -> None:
    ends = set()
    for seed in range(12):
        domain = Offsets(axis="tokens", multiple_of=8, short=short)
        found = drawn(domain, kind, shape="ends", seed=seed)
        assert int(found[0]) == 0
        assert bool((found.diff() >= 0).all())
        assert not bool((found[:-1] % 8).any())
        ends.add(int(found[-1]))
    assert (ends == {96}) is not short
    assert max(ends) <= 96


def test_slots_are_unique_and_some_are_padding() -> None:
    domain = Index(axis="slots", unique=True, sentinels=(-1,))
    found = drawn(domain, "sentinel", dtype=DType.INT64)
    used = found[found >= 0]
    assert 0 < len(used) < len(found)
    assert len(set(used.tolist())) == len(used)
    assert int(drawn(domain, "uniform", dtype=DType.INT64).min()) >= 0


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.UINT8, DType.INT8, DType.INT16])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_packed_codes_fill_every_word(dtype: DType, bits: int) -> None:
    domain = Packed(bits=bits)
    words = drawn(domain, "uniform", dtype=dtype).long()
    count = 8 * dtype.itemsize // bits
    for place in range(count):
        codes = (words >> (place * bits)) & domain.top
        assert len(set(codes.tolist())) >= min(domain.top + 1, 150)
    alike = drawn(domain, "ones", dtype=dtype).long()
    assert all(
        int((alike[0] >> (place * bits)) & domain.top) == domain.top for place in range(count)
    )


@pytest.mark.parametrize("kind", ["uniform", "zeros", "ones", "arange", "edges"])
def test_codes_stay_within_their_bounds(kind: str) -> None:
    words = drawn(Packed(bits=4, low=1, high=9), kind).long()
    codes = torch.stack([(words >> place) & 15 for place in range(0, 32, 4)])
    assert 1 <= int(codes.min()) <= int(codes.max()) <= 9


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.FLOAT8_E4M3FN, DType.FLOAT32])
def test_scales_lie_within_their_bounds(dtype: DType) -> None:
    codes = dtype is DType.UINT8
    low, high = (119, 135) if codes else (2.0**-4, 2.0**4)
    domain = Swizzled(rows="rows", columns="ends", low=low, high=high)
    found = drawn(domain, "uniform" if codes else "normal", dtype=dtype).float()
    assert low <= float(found.min())
    assert float(found.max()) <= high

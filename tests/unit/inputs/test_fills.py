"""Every fill: its regime, its domain, its dtype, and the same bits for the same seed."""

from __future__ import annotations

import pytest
import torch

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.inputs.fills import FILLS, default_fill, kinds_for, make
from cuassay.inputs.seeds import derive
from cuassay.model.case import Fill
from cuassay.model.device import CPU
from cuassay.model.domain import (
    Choice,
    Domain,
    Index,
    IntegerRange,
    Mask,
    Offsets,
    Positive,
    Probability,
    Real,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec

SIZES = {"rows": 40, "columns": 64, "vocab": 100, "one": 1}


def spec(dtype: DType, domain: Domain, *shape: str) -> TensorSpec:
    return TensorSpec(name="x", dtype=dtype, shape=shape or ("rows", "columns"), domain=domain)


def draw(target: TensorSpec, kind: str, *, seed: int = 1, **parameters: float) -> torch.Tensor:
    fill = Fill(kind=kind, parameters=parameters)
    return make(target, fill, sizes=SIZES, seed=seed, device=CPU)


def values(tensor: torch.Tensor) -> list[float]:
    return sorted(set(tensor.flatten().tolist()))


REAL = spec(DType.FLOAT32, Real())
IDS = spec(DType.INT64, Index(axis="vocab"))


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_floating])
@pytest.mark.parametrize("kind", kinds_for(REAL))
def test_every_real_fill_is_finite_in_every_floating_dtype(kind: str, dtype: DType) -> None:
    extra: dict[str, tuple[float, ...]] = {"values": (1.0, -2.0)} if kind == "explicit" else {}
    target = spec(dtype, Real())
    fill = Fill(kind=kind, parameters=extra)
    made = make(target, fill, sizes=SIZES, seed=3, device=CPU)
    assert made.shape == (40, 64)
    assert made.is_contiguous()
    assert str(made.dtype) == f"torch.{dtype.value}"
    if dtype is not DType.FLOAT4_E2M1FN_X2:
        assert torch.isfinite(made.double()).all()


@pytest.mark.parametrize("kind", kinds_for(REAL))
def test_every_real_fill_works_on_scalars_and_empty_tensors(kind: str) -> None:
    fill = Fill(kind=kind, parameters={"values": (2.0,)} if kind == "explicit" else {})
    scalar = TensorSpec(name="s", dtype=DType.BFLOAT16, shape=(), domain=Real())
    assert make(scalar, fill, sizes={}, seed=0, device=CPU).shape == ()
    empty = spec(DType.BFLOAT16, Real(), "rows", "none")
    made = make(empty, fill, sizes={**SIZES, "none": 0}, seed=0, device=CPU)
    assert made.shape == (40, 0)


def test_same_seed_gives_same_bits_and_another_seed_others() -> None:
    for kind in ("normal", "cauchy", "mixed_scale"):
        assert torch.equal(draw(REAL, kind, seed=5), draw(REAL, kind, seed=5))
        assert not torch.equal(draw(REAL, kind, seed=5), draw(REAL, kind, seed=6))


def test_regimes_show_what_they_promise() -> None:
    assert draw(REAL, "same_sign").min() >= 0
    assert 2.5 < float(draw(REAL, "offset", mean=3.0).mean()) < 3.5
    assert float(draw(REAL, "normal", scale=1e-3).abs().max()) < 0.01
    channels = draw(REAL, "outlier", scale=1.0).abs().amax(dim=0)
    assert int((channels > 30).sum()) == 1
    rows = draw(REAL, "near_constant")
    assert float((rows.std(dim=1) / rows.mean(dim=1).abs()).median()) < 2e-3
    assert float(draw(REAL, "cancelling").sum(dim=0).abs().max()) < 2.0
    hot = draw(REAL, "one_hot")
    assert torch.equal(hot.sum(dim=1), torch.ones(40))
    powers = draw(REAL, "powers_of_two").abs().log2()
    assert torch.equal(powers, powers.round())
    steps = draw(REAL, "alternating")
    assert (steps[:, 0::2] >= 0).all()
    assert (steps[:, 1::2] <= 0).all()
    sizes = draw(REAL, "mixed_scale").abs().amax(dim=1)
    assert float(sizes.max() / sizes.min()) > 100
    assert (draw(REAL, "sorted").diff(dim=1) >= 0).all()
    assert (draw(REAL, "late_peak")[:, -1] == 50).all()
    first, rest = draw(REAL, "leading_ones").view(2, -1)
    assert (first == 1).all()
    assert (rest != 1).any()


def test_a_few_of_the_mixed_rows_hold_zeros_where_that_is_asked_for() -> None:
    empty = (draw(REAL, "mixed_scale", zero=1 / 32) == 0).all(dim=1)
    assert int(empty.sum()) == 1
    assert not bool((draw(REAL, "mixed_scale") == 0).all(dim=1).any())
    always = spec(DType.FLOAT32, Real(low=0.5, high=2.0))
    assert float(draw(always, "mixed_scale", zero=1 / 32).min()) >= 0.5


def test_tiny_reaches_subnormals_and_huge_stays_finite() -> None:
    half = spec(DType.FLOAT16, Real())
    tiny = draw(half, "tiny").abs()
    assert ((tiny > 0) & (tiny < 2.0**-14)).any()
    huge = draw(spec(DType.BFLOAT16, Real()), "huge")
    assert float(huge.abs().max()) > 1e37


def test_confident_rows_have_a_probability_close_to_one_at_the_end() -> None:
    p = torch.softmax(draw(REAL, "confident").double(), dim=1)[:, -1]
    assert float(p.min()) > 0.4
    assert float(p.max()) > 0.999
    assert float((1 - p).min()) > 1e-6
    assert int(draw(IDS, "single_hot", row=2.0**40).min()) == 99


def test_explicit_values_repeat_row_major() -> None:
    made = draw_explicit((1.0, 2.0, 3.0))
    assert made.flatten()[:5].tolist() == [1.0, 2.0, 3.0, 1.0, 2.0]


def draw_explicit(values: tuple[float, ...]) -> torch.Tensor:
    fill = Fill(kind="explicit", parameters={"values": values})
    return make(REAL, fill, sizes=SIZES, seed=0, device=CPU)


@pytest.mark.parametrize("kind", [k for k in kinds_for(REAL) if k != "explicit"])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16])
def test_bounded_domains_hold_exactly(kind: str, dtype: DType) -> None:
    positive = draw(spec(dtype, Positive(low=1e-3, high=10.0)), kind).double()
    assert positive.min() >= 1e-3
    assert positive.max() <= 10.0
    unit = draw(spec(dtype, Real(low=0.1, high=0.9)), kind).double()
    assert unit.min() >= 0.1
    assert unit.max() <= 0.9
    above = draw(spec(dtype, Real(low=0.7)), kind).double()
    assert above.min() >= 0.7
    below = draw(spec(dtype, Real(high=-0.3)), kind).double()
    assert below.max() <= -0.3


def test_positive_inputs_have_a_consistent_size_by_default() -> None:
    made = draw(spec(DType.FLOAT32, Positive()), "normal")
    assert made.min() >= 0.1
    assert made.max() <= 10.0
    assert float(made.std()) > 0.1


@pytest.mark.parametrize("kind", ["normal", "ones", "zeros", "one_hot", "offset"])
@pytest.mark.parametrize("axis", [0, -1])
def test_probability_rows_sum_to_one(kind: str, axis: int) -> None:
    made = draw(spec(DType.FLOAT32, Probability(axis=axis)), kind)
    assert torch.allclose(made.sum(dim=axis), torch.ones(()), atol=1e-5)
    assert made.min() >= 0


def test_zipf_is_steep_and_its_hot_row_is_random() -> None:
    wide = spec(DType.INT64, Index(axis="vocab"), "rows", "columns")
    counts = torch.bincount(draw(wide, "zipf", exponent=1.0).flatten(), minlength=100)
    top = counts.sort(descending=True).values
    assert top[0] > 5 * top[20]
    hottest = {int(torch.mode(draw(wide, "zipf", seed=s).flatten()).values) for s in range(5)}
    assert len(hottest) > 1


def test_hot_and_ordered_indices() -> None:
    assert len(values(draw(IDS, "single_hot"))) == 1
    assert int(draw(IDS, "single_hot", row=7).max()) == 7
    assert len(values(draw(IDS, "two_hot"))) == 2
    assert (draw(IDS, "sorted").diff(dim=1) >= 0).all()
    short = spec(DType.INT32, Index(axis="vocab"), "columns")
    assert len(values(draw(short, "distinct"))) == 64
    assert draw(short, "arange").tolist() == list(range(64))


def test_sentinels_appear_but_never_everywhere() -> None:
    marked = spec(DType.INT64, Index(axis="vocab", sentinels=(-100,)))
    made = draw(marked, "sentinel", share=1.0)
    assert int((made != -100).sum()) == 1
    plain = draw(IDS, "sentinel", share=1.0)
    assert plain.min() >= 0


def test_unique_indices_never_repeat_and_need_room() -> None:
    chosen = spec(DType.INT64, Index(axis="vocab", unique=True), "columns")
    for kind in ("uniform", "zipf", "single_hot", "sorted", "arange"):
        assert len(values(draw(chosen, kind))) == 64
    crowded = spec(DType.INT64, Index(axis="rows", unique=True), "columns")
    with pytest.raises(ProblemError, match="needs 64 distinct indices but its axis has size 40"):
        draw(crowded, "uniform")


def test_index_into_an_empty_axis_is_refused() -> None:
    with pytest.raises(ProblemError, match="an axis of size 0"):
        make(IDS, Fill(kind="uniform"), sizes={**SIZES, "vocab": 0}, seed=0, device=CPU)


@pytest.mark.parametrize("kind", ["uniform", "even", "ragged"])
def test_offsets_are_sorted_from_zero_to_the_axis(kind: str) -> None:
    made = draw(spec(DType.INT32, Offsets(axis="vocab"), "rows"), kind)
    assert made[0] == 0
    assert made[-1] == 100
    assert (made.diff() >= 0).all()


def test_masks_by_kind() -> None:
    causal = draw(spec(DType.BOOL, Mask(kind="causal"), "rows", "rows"), "uniform")
    assert torch.equal(causal, torch.ones(40, 40, dtype=torch.bool).tril())
    padding = draw(spec(DType.BOOL, Mask(kind="padding")), "uniform")
    assert (padding.int().diff(dim=1) <= 0).all()
    assert padding[:, 0].all()
    additive = draw(spec(DType.FLOAT16, Mask(additive=True)), "uniform")
    assert values(additive) == [-65504.0, 0.0]
    assert not draw(spec(DType.BOOL, Real()), "zeros").any()


@pytest.mark.parametrize("shape", [("1",), ()])
def test_a_mask_of_one_element_is_a_flag_with_both_its_values(shape: tuple[str, ...]) -> None:
    flag = TensorSpec(name="training", dtype=DType.BOOL, shape=shape, domain=Mask())
    fill = Fill(kind="uniform")
    drawn = {bool(make(flag, fill, sizes={}, seed=n, device=CPU)) for n in range(20)}
    assert drawn == {False, True}
    assert not make(flag, Fill(kind="zeros"), sizes={}, seed=1, device=CPU).any()


def test_a_mask_of_one_row_and_one_column_is_no_flag() -> None:
    mask = TensorSpec(name="mask", dtype=DType.BOOL, shape=("rows", "columns"), domain=Mask())
    sizes = {"rows": 1, "columns": 1}
    kept = [make(mask, Fill(kind="uniform"), sizes=sizes, seed=n, device=CPU) for n in range(20)]
    assert all(bool(one) for one in kept), "what a soft-max of nothing is, few references define"


def test_integers_and_choices_stay_in_their_lists() -> None:
    ranged = spec(DType.INT32, IntegerRange(low=-3, high=4))
    assert values(draw(ranged, "uniform")) == list(range(-3, 5))
    assert values(draw(ranged, "zeros")) == [0]
    picked = draw(spec(DType.INT64, Choice(values=(2, 5))), "uniform")
    assert values(picked) == [2, 5]


def test_a_fill_of_another_family_is_refused_with_the_legal_list() -> None:
    with pytest.raises(UnknownNameError, match="fill for index input 'x' 'normal'"):
        draw(IDS, "normal")
    with pytest.raises(UnknownNameError, match="did you mean 'normal'"):
        draw(REAL, "nromal")


def test_bad_parameters_say_which() -> None:
    with pytest.raises(ProblemError, match="'scale' of input 'x' is 'big', expected a number"):
        make(
            REAL,
            Fill(kind="normal", parameters={"scale": "big"}),
            sizes=SIZES,
            seed=0,
            device=CPU,
        )
    with pytest.raises(ProblemError, match="needs 'values'"):
        draw(REAL, "explicit")


def test_registry_and_defaults() -> None:
    assert {"normal", "zipf", "even", "explicit"} <= set(FILLS)
    assert default_fill(REAL).kind == "normal"
    assert default_fill(IDS).kind == "uniform"


def test_seeds_depend_on_every_part_of_the_path() -> None:
    seeds = {derive(1), derive(2), derive(1, "a"), derive(1, "a", "b"), derive(1, "ab")}
    assert len(seeds) == 5
    assert derive(1, "x", 3) == derive(1, "x", 3)
    assert all(0 <= seed < 2**63 for seed in seeds)

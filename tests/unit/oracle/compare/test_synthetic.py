"""The comparator on truths with known answers: what must pass, what must fail, and why."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import Comparison, compare
from cuassay.oracle.truth.make import OutputTruth
from tests.support.oracle_cases import normal, truth_of, whole
from tests.support.oracle_cases import spec as output_spec

_ROWS, _COLUMNS = 24, 128


def _identity(x: Tensor) -> Tensor:
    return x * 1.5


@pytest.fixture(scope="module", params=["float32", "bfloat16", "float16"])
def scaled(request: pytest.FixtureRequest) -> OutputTruth:
    dtype = getattr(torch, request.param)
    return truth_of(_identity, [normal(_ROWS, _COLUMNS, dtype=dtype)], request.param, "m", "n")


def _native(truth: OutputTruth, values: Tensor) -> Tensor:
    return values.to(getattr(torch, truth.dtype.value))


def _names(comparison: Comparison) -> set[str]:
    return {found.name for found in comparison.statistics if found.share > 1}


def test_the_correctly_rounded_answer_passes(scaled: OutputTruth) -> None:
    found = compare(_native(scaled, scaled.value), scaled)
    assert found.passed
    assert found.share < 0.6
    assert found.error_map is None


def test_a_strided_candidate_is_judged_by_its_values(scaled: OutputTruth) -> None:
    wide = torch.stack([_native(scaled, scaled.value)] * 2, -1)
    assert compare(wide[..., 0], scaled).passed


def test_gain_of_one_row_is_found_and_named(scaled: OutputTruth) -> None:
    broken = scaled.value.clone()
    broken[5] *= 1.004
    found = compare(_native(scaled, broken), scaled)
    assert not found.passed
    assert any("axis m, slice 5" in s.group for s in found.statistics if s.share > 1)


def test_one_wrong_element_is_found_at_its_place(scaled: OutputTruth) -> None:
    broken = scaled.value.clone()
    broken[3, 17] = broken[3, 17] * 1.06 + 0.2
    found = compare(_native(scaled, broken), scaled)
    assert not found.passed
    assert found.worst_index == (3, 17)
    assert found.expected == pytest.approx(float(scaled.value[3, 17]))
    assert found.error_map is not None
    assert max(found.error_map.cells) == pytest.approx(
        next(s.value for s in found.statistics if s.name == "W"), rel=1e-3
    )
    assert sum(found.error_map.counts) > found.error_map.counts[0] > 0
    assert found.error_map.curve is not None
    assert found.error_map.curve.got != found.error_map.curve.expected


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_class_that_differs_from_truths_fails(scaled: OutputTruth, wrong: float) -> None:
    broken = _native(scaled, scaled.value)
    broken[2, 2] = wrong
    found = compare(broken, scaled)
    assert "class" in _names(found)
    assert found.worst_index == (2, 2)


def test_nan_on_both_sides_is_equal_and_does_not_spoil_the_rest() -> None:
    x = normal(_ROWS, _COLUMNS)
    x[1, 1], x[2, 2], x[4] = math.nan, math.inf, 0.0
    truth = truth_of(_identity, [x], "float32", "m", "n")
    found = compare(x * 1.5, truth)
    assert found.passed
    assert found.share < 1
    swallowed = x * 1.5
    swallowed[1, 1] = 0.0
    assert "class" in _names(compare(swallowed, truth))


def test_an_all_zero_slice_with_nan_elsewhere_gives_no_alarm() -> None:
    x = torch.zeros(_ROWS, _COLUMNS)
    x[0, 0] = math.nan
    truth = truth_of(_identity, [x], "bfloat16", "m", "n")
    assert compare((x * 1.5).bfloat16(), truth).passed


def test_zeros_that_carry_no_noise_stay_exact_but_subnormals_flush() -> None:
    x = normal(_ROWS, _COLUMNS)
    x[3] = 0.0
    truth = truth_of(_identity, [x], "float32", "m", "n")
    flushed, touched = x * 1.5, x * 1.5
    flushed[3, 0], touched[3, 0] = 1e-39, 1e-20
    assert compare(flushed, truth).passed
    assert "exact" in _names(compare(touched, truth))


def test_overflow_is_judged_by_class_and_leniently_at_the_limit() -> None:
    x = torch.full((4, 32), 65504.0)
    x[1], x[2] = 7e4, 1.0
    truth = truth_of(lambda v: v * 1.0, [x], "float16", "m", "n")
    right = x.half()
    assert compare(right, truth).passed
    right[0, 0] = math.inf  # next to the largest finite number
    assert compare(right, truth).passed
    right[2, 0] = math.inf
    assert not compare(right, truth).passed


def test_the_references_own_class_is_allowed_only_where_it_differs() -> None:
    x = torch.full((8, 32), 300.0, dtype=torch.float16)
    x[4:] = 2.0

    def squares(v: Tensor) -> Tensor:
        return v * v / v  # float16 overflows on the way, truth does not

    truth = truth_of(squares, [x], "float16", "m", "n")
    assert compare(squares(x), truth).passed
    assert compare(x, truth).passed
    wrong = squares(x)
    wrong[5, 5] = math.inf
    assert "class" in _names(compare(wrong, truth))
    wrong = squares(x)
    wrong[0, 0] = math.nan  # neither truth's class nor the reference's
    assert "class" in _names(compare(wrong, truth))


def test_shape_and_dtype_are_a_mismatch_not_an_exception(scaled: OutputTruth) -> None:
    short = compare(_native(scaled, scaled.value)[1:], scaled)
    assert "shape (23, 128), expected (24, 128)" in short.mismatch
    other = compare(scaled.value, scaled)
    assert "is float64, expected" in other.mismatch
    assert not short.passed
    assert not other.passed


def test_outputs_of_every_rank_are_judged() -> None:
    for shape in ((), (1,), (7,), (3, 1), (2, 3, 4), (2, 3, 4, 20), (0, 4)):
        x = normal(*shape)
        truth = truth_of(_identity, [x], "float32", *("abcd"[: len(shape)]))
        assert compare(x * 1.5, truth).passed
        if x.numel():
            assert not compare(x * 1.5 + 0.5, truth).passed


def test_a_vector_of_few_elements_has_no_minimum_size() -> None:
    x = normal(3, 64)
    truth = truth_of(lambda v: v.sum(-1), [x], "float32", "m")
    broken = x.sum(-1)
    broken[1] += x[1, -1]
    assert not compare(broken, truth).passed


def test_a_row_inside_a_batch_is_a_group_of_its_own() -> None:
    x = normal(8, 16, 256, dtype=torch.bfloat16)
    truth = truth_of(_identity, [x], "bfloat16", "b", "s", "h")
    broken = truth.value.clone()
    broken[3, 4] *= 1.004
    found = compare(broken.bfloat16(), truth)
    assert any("last axis at [3, 4]" in s.group for s in found.statistics if s.share > 1)


def test_integers_and_bools_are_exact() -> None:
    x = normal(16, 64)
    truths = whole(
        lambda v: (v.argmax(-1), v > 0),
        [x],
        output_spec("int64", "m"),
        output_spec("bool", "m", "n"),
    )
    first, second = truths.outputs
    assert compare(x.argmax(-1), first).passed
    assert compare(x > 0, second).passed
    wrong = x.argmax(-1)
    wrong[3] += 1
    found = compare(wrong, first)
    assert not found.passed
    assert found.worst_index == (3,)
    assert found.got == float(wrong[3])


def test_an_element_that_honest_noise_flips_may_match_either_side() -> None:
    x = normal(512, 64)
    x[:, 1] = x[:, 0] = 9.0
    x[:4, 1] += 4e-7  # the sums below differ by less than their rounding errors

    def pick(v: Tensor) -> Tensor:
        return (v * 1.1 + 0.3).argmax(-1)

    clear = x.clone()
    clear[8:, 1] = 0.0
    truth = truth_of(pick, [clear], "int64", "m")
    assert truth.ambiguous is not None
    assert int(truth.ambiguous.sum()) == 8
    other = pick(clear)
    other[:8] = 1 - other[:8]
    assert compare(other, truth).passed
    other[100] = 5
    assert not compare(other, truth).passed


def test_a_jump_in_a_floating_output_is_ambiguous_and_judged_on_both_sides() -> None:
    x = normal(64, 64)
    x[0, :3] = 1.0

    def gated(v: Tensor) -> Tensor:
        w = v * 1.3
        return torch.where(w * 0.7 >= 0.91, w + 5.0, torch.zeros_like(w))

    truth = truth_of(gated, [x], "float32", "m", "n")
    assert truth.ambiguous is not None
    assert truth.ambiguous[0, :3].all()
    assert truth.ambiguous_share < 0.01
    low, high = gated(x), gated(x)
    low[0, :3], high[0, :3] = 0.0, 6.3
    assert compare(low, truth).passed
    assert compare(high, truth).passed
    high[0, 0] = 60.0
    assert not compare(high, truth).passed


def test_quantised_codes_may_be_one_step_off_where_noise_flips_them() -> None:
    x = normal(64, 256, seed=4)

    def quantise(v: Tensor) -> Tensor:
        return (v / v.abs().amax() * 448.0).to(torch.float8_e4m3fn)

    truth = truth_of(quantise, [x], "float8_e4m3fn", "m", "n")
    right = quantise(x)
    assert compare(right, truth).passed
    one = right.clone().view(torch.int8)
    one[0, 0] += 1
    assert compare(one.view(torch.float8_e4m3fn), truth).passed
    one[0, 1] += 2
    assert not compare(one.view(torch.float8_e4m3fn), truth).passed
    many = right.clone().view(torch.int8)
    many[1] += 1
    assert not compare(many.view(torch.float8_e4m3fn), truth).passed

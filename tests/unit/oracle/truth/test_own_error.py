"""The reference's own error: it takes answers as near to truth as the reference, and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.own_error import own_errors

Call = Callable[..., Tensor]


def _product(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def _attention(x: Tensor, w: Tensor) -> Tensor:
    q = x @ w
    return torch.softmax(q @ x.transpose(-1, -2) / 8.0, -1) @ x


def _norm(x: Tensor, w: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:]) @ torch.nn.functional.silu(w)


def _masked(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w)


def _inputs(dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 24, 64, generator=generator).to(dtype)
    return x, (torch.randn(64, 64, generator=generator) / 8.0).to(dtype)


def _spec(dtype: torch.dtype) -> TensorSpec:
    kind = DType(str(dtype).removeprefix("torch."))
    return TensorSpec(name="y", dtype=kind, shape=("batch", "rows", "hidden"), domain=Real())


def _wide(call: Call, *inputs: Tensor) -> Tensor:
    """A better kernel: float64 throughout and one rounding at the end."""
    return call(*(one.double() for one in inputs)).to(inputs[0].dtype)


def _narrow(call: Call, *inputs: Tensor) -> Tensor:
    """A usual kernel: float32 throughout and one rounding at the end."""
    return call(*(one.float() for one in inputs)).to(inputs[0].dtype)


def _reordered(call: Call, x: Tensor, w: Tensor) -> Tensor:
    """The sums over the last axis in another order."""
    order = torch.randperm(64, generator=torch.Generator().manual_seed(3))
    if call is not _product:
        return _narrow(call, x, w)
    return (x[..., order].float() @ w[order].float()).to(x.dtype)


def _one_element(right: Tensor) -> Tensor:
    made = right.clone()
    made.view(-1)[17] += 0.05 * right.float().std()
    return made


def _one_row_of_another(right: Tensor) -> Tensor:
    made = right.clone()
    made[1, 3] = right[1, 4]
    return made


def _a_percent(right: Tensor) -> Tensor:
    return right * 1.01


def _sums_in_halves(right: Tensor) -> Tensor:
    """What accumulating in the outputs' narrow type, or in bfloat16, gives."""
    noise = torch.randn(right.shape, generator=torch.Generator().manual_seed(1))
    return (right.float() * (1.0 + 2.0**-6 * noise)).to(right.dtype)


_CALLS = (_product, _attention, _norm, _masked)
_TYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize("kernel", [_wide, _narrow, _reordered])
def test_honest_answers_are_as_near_as_the_references_own(
    call: Call, kernel: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    near = 0
    for seed in range(4):
        inputs = _inputs(dtype, seed)
        (own,) = own_errors(call, inputs, [_spec(dtype)], seed=seed)
        assert own.share(call(*inputs)) <= 1.0
        near += own.share(kernel(call, *inputs)) <= 1.0
    assert near >= 3


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize("change", [_one_element, _one_row_of_another, _a_percent, _sums_in_halves])
def test_wrong_answers_are_not(
    call: Call, change: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    for seed in range(4):
        inputs = _inputs(dtype, seed)
        (own,) = own_errors(call, inputs, [_spec(dtype)], seed=seed)
        wrong = change(call(*inputs))
        assert own.share(wrong) > 1.0
        stale = call(*_inputs(dtype, seed + 100))
        assert own.share(stale) > 1.0


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("call", _CALLS)
def test_what_it_explains_a_truth_accepts(call: Call, dtype: torch.dtype) -> None:
    """It may be stricter than truth, never looser: errors of every size are held against both."""
    explained = accepted = 0
    for seed in range(3):
        inputs = _inputs(dtype, seed)
        spec = _spec(dtype)
        (own,) = own_errors(call, inputs, [spec], seed=seed)
        (truth,) = make_truth(call, inputs, [spec], seed=seed).outputs
        right = call(*(one.double() for one in inputs))
        noise = torch.randn(right.shape, generator=torch.Generator().manual_seed(seed)).double()
        for power in range(-25, -3):
            answer = (right * (1.0 + 2.0**power * noise)).to(dtype)
            near, passed = own.share(answer) <= 1.0, compare(answer, truth).passed
            assert passed or not near, f"2^{power}"
            explained, accepted = explained + near, accepted + passed
    assert explained > 0.5 * accepted


def test_what_a_mask_makes_zero_stays_zero() -> None:
    inputs = _inputs(torch.float32, 0)
    (own,) = own_errors(_masked, inputs, [_spec(torch.float32)], seed=0)
    right = _masked(*inputs)
    place = (right == 0).nonzero()[0].tolist()
    right[tuple(place)] = 0.01
    assert own.share(right) > 1.0


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.double(),
        lambda y: y[..., :-1],
        lambda y: torch.where(y > y.mean(), y, torch.nan),
        lambda y: y.clone().index_fill_(0, torch.tensor([1]), torch.inf),
    ],
)
def test_other_types_shapes_and_classes_are_left_to_truth(
    change: Callable[[Tensor], Tensor],
) -> None:
    inputs = _inputs(torch.float32, 0)
    (own,) = own_errors(_product, inputs, [_spec(torch.float32)], seed=0)
    assert own.share(change(_product(*inputs))) > 1.0


def test_roundings_of_large_elements_excuse_no_error_of_small_ones() -> None:
    generator = torch.Generator().manual_seed(1)
    x = (torch.randn(64, 512, generator=generator) * 30.0).bfloat16()
    spec = TensorSpec(name="y", dtype=DType.BFLOAT16, shape=("rows", "columns"), domain=Real())

    def call(x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    own = own_errors(call, [x], [spec], seed=1)[0]
    assert own.judged is not None
    assert own.judged.scale is not None
    right, scale = own.judged.value, own.judged.scale.double()
    assert own.share(torch.softmax(x.float(), -1).bfloat16()) < 0.8
    truth = make_truth(call, [x], [spec], seed=1).outputs[0]
    errors = torch.randn(right.shape, generator=generator, dtype=torch.float64) * scale
    wrong = [(right + step * errors / 8.0).bfloat16() for step in range(1, 32)]
    assert own.share(wrong[-1]) > 1.0
    assert all(compare(one, truth).passed for one in wrong if own.share(one) <= 1.0)


def test_whole_numbers_and_what_is_not_finite_are_right_by_their_bits_alone() -> None:
    def places(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = x @ w
        return y.argmax(-1), torch.log(y)

    inputs = _inputs(torch.float32, 0)
    specs: Sequence[TensorSpec] = (
        TensorSpec(name="at", dtype=DType.INT64, shape=("batch", "rows"), domain=Real()),
        _spec(torch.float32),
    )
    at, logs = own_errors(places, inputs, specs, seed=0)
    best, log = places(*inputs)
    assert at.share(best) <= 1.0
    assert at.share(best.roll(1)) > 1.0
    assert logs.share(log) <= 1.0
    assert logs.share(log * (1 + 2.0**-23)) > 1.0


def _unliftable(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).view(torch.int32).add(0).view(torch.float32)


@pytest.mark.parametrize("call", [*_CALLS, _unliftable])
def test_answers_to_other_values_are_far_and_rounded_ones_are_not(call: Call) -> None:
    x, w = _inputs(torch.float32, 0)
    other = x.clone()
    other[0, 0, 0] += 1.0  # one element of one tensor
    spec = [_spec(torch.float32)]
    (own,) = own_errors(call, (x, w), spec, seed=0)
    (moved,) = own_errors(call, (other, w), spec, seed=0)
    (same,) = own_errors(call, (x.clone(), w), spec, seed=0)
    assert own.is_far_from(moved)
    assert not own.is_far_from(same)
    if call is not _unliftable:
        (rounded,) = own_errors(call, (x * (1 + 2.0**-24), w), spec, seed=0)
        assert not own.is_far_from(rounded)
    (shorter,) = own_errors(call, (x[:1], w), spec, seed=0)
    assert own.is_far_from(shorter)


def test_of_a_reference_that_cannot_be_lifted_its_own_bits_alone_are_right() -> None:
    inputs = _inputs(torch.float32, 0)
    (own,) = own_errors(_unliftable, inputs, [_spec(torch.float32)], seed=0)
    right = _unliftable(*inputs)
    assert own.share(right) <= 1.0
    assert own.share(torch.nextafter(right, torch.zeros_like(right))) > 1.0


def test_an_error_as_large_as_truth_explains_nothing_but_the_reference_s_own_bits() -> None:
    """Where all that a reference returns is rounding, zeros are as near to truth as it is."""

    def rounding(x: Tensor) -> Tensor:
        return (x + 1e9) - 1e9

    x = 64.0 * torch.randn(8, 64, generator=torch.Generator().manual_seed(3))
    spec = TensorSpec(name="y", dtype=DType.FLOAT32, shape=("rows", "columns"), domain=Real())
    (own,) = own_errors(rounding, [x], [spec], seed=1)
    assert own.share(rounding(x)) <= 1.0
    assert own.share(x) > 1.0
    assert own.share(torch.zeros_like(x)) > 1.0

"""Functions written out in 16 bits, step by step, are members of `mixed`."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.compare.outputs import measure
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import OutputTruth
from cuassay.oracle.truth.written_out import WRITTEN_OUT
from tests.support.oracle_cases import normal, spec

_TYPES = {torch.bfloat16: DType.BFLOAT16, torch.float16: DType.FLOAT16}


def _tanh_form(x: Tensor, cubic: float = 0.044715) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + cubic * x.pow(3))))


def _erf_form(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def _gelu(approximate: str) -> Callable[[Tensor], Tensor]:
    return lambda x: functional.gelu(x.float(), approximate=approximate).to(x.dtype)


def _truth(x: Tensor, approximate: str, *, precision: Precision) -> OutputTruth:
    family = family_of(precision, _TYPES[x.dtype])
    named = spec(_TYPES[x.dtype].value, "rows", "hidden")
    return make_truth(_gelu(approximate), [x], [named], seed=3, family=family).outputs[0]


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize(("approximate", "written"), [("tanh", _tanh_form), ("none", _erf_form)])
def test_steps_in_16_bits_belong_to_mixed_and_not_to_strict(
    dtype: torch.dtype, approximate: str, written: Callable[[Tensor], Tensor]
) -> None:
    x = (normal(128, 96) - 2.5).to(dtype)
    assert measure(written(x), _truth(x, approximate, precision=Precision.MIXED)).passed
    assert not measure(written(x), _truth(x, approximate, precision=Precision.STRICT)).passed


@pytest.mark.parametrize("dtype", _TYPES)
def test_other_functions_and_lost_tails_are_wrong(dtype: torch.dtype) -> None:
    x = (normal(128, 96) - 2.5).to(dtype)
    truth = _truth(x, "tanh", precision=Precision.MIXED)
    for wrong in (_tanh_form(x, 0.04), x * torch.sigmoid(1.702 * x), functional.relu(x)):
        assert not measure(wrong, truth).passed


_FUSED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "silu": (functional.silu, lambda x: x * torch.sigmoid(x)),
    "mish": (functional.mish, lambda x: x * torch.tanh(functional.softplus(x))),
    "hardswish": (functional.hardswish, lambda x: x * (functional.relu6(x + 3.0) / 6.0)),
}


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 4.0])
@pytest.mark.parametrize("name", _FUSED)
def test_other_activations_in_steps_belong_to_mixed(
    name: str, size: float, dtype: torch.dtype
) -> None:
    fused, steps = _FUSED[name]
    x = (normal(128, 96) * size).to(dtype)
    named = spec(_TYPES[dtype].value, "rows", "hidden")
    mixed = family_of(Precision.MIXED, _TYPES[dtype])
    reference = lambda x: fused(x.float()).to(x.dtype)  # noqa: E731
    truth = make_truth(reference, [x], [named], seed=3, family=mixed).outputs[0]
    assert measure(steps(x), truth).passed
    assert not measure(steps(x) * 1.03, truth).passed


_FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "rsqrt": (torch.rsqrt, lambda v: 1.0 / v.sqrt()),
    "pow -0.5": (lambda v: v.pow(-0.5), lambda v: v.sqrt().reciprocal()),
    "pow -2": (lambda v: v.pow(-2), lambda v: (v * v).reciprocal()),
    "pow 3": (lambda v: v.pow(3), lambda v: v * v * v),
    "logit": (torch.logit, lambda v: torch.log(v / (1.0 - v))),
}


def _scaled(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, v: (x.float() * function(v.float())).to(x.dtype)


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_function_of_a_table_in_steps_belongs_to_mixed(name: str, dtype: torch.dtype) -> None:
    """All rows read one rounding of each channel's number: none averages it away."""
    function, steps = _FUNCTIONS[name]
    named = spec(_TYPES[dtype].value, "rows", "channels")
    mixed = family_of(Precision.MIXED, _TYPES[dtype])
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(300, 11, generator=generator).to(dtype)
        v = (torch.rand(11, generator=generator) * 0.9 + 0.05).to(dtype)
        truth = make_truth(_scaled(function), [x, v], [named], seed=seed, family=mixed).outputs[0]
        for kernel in (x * steps(v), x * function(v)):
            found = measure(kernel, truth)
            assert found.passed, (seed, found.worst)
        one = torch.ones_like(v)
        one[seed] = 1.04
        assert not measure(x * (steps(v) * one), truth).passed


def test_steps_compute_what_the_operation_does() -> None:
    x = normal(4000).double() * 4.0
    for name, (fused, _) in _FUSED.items():
        found = WRITTEN_OUT[name]({"self": x}, lambda step: step)
        for way in found if isinstance(found, list) else [lambda made=found: made]:
            torch.testing.assert_close(way(), fused(x))
    for approximate in ("none", "tanh"):
        steps = WRITTEN_OUT["gelu"]({"self": x, "approximate": approximate}, lambda step: step)
        torch.testing.assert_close(steps, functional.gelu(x, approximate=approximate))
    positive = x.abs() + 0.01
    for exponent in (-0.5, -2, 3):
        steps = WRITTEN_OUT["pow"]({"self": positive, "exponent": exponent}, lambda step: step)
        torch.testing.assert_close(steps, positive.pow(exponent))
    assert WRITTEN_OUT["pow"]({"self": x, "exponent": 1.7}, lambda step: step) is NotImplemented
    found = WRITTEN_OUT["rsqrt"]({"self": positive}, lambda step: step)
    torch.testing.assert_close(found, positive.rsqrt())
    share = positive.clamp(max=1.0)
    for eps in (None, 1e-3):
        steps = WRITTEN_OUT["logit"]({"self": share, "eps": eps}, lambda step: step)
        torch.testing.assert_close(steps, torch.logit(share, eps))


def test_a_power_with_a_tensor_of_exponents_is_one_operation() -> None:
    x, exponents = torch.rand(5, 3) + 0.5, torch.tensor([-0.5, 3.0, -2.0])
    steps = WRITTEN_OUT["pow"]({"self": x, "exponent": exponents}, lambda step: step)
    assert steps is NotImplemented


def _with_sink(scores: Tensor) -> Tensor:
    return torch.cat([scores, scores.new_full((*scores.shape[:-1], 1), 4.0)], -1)


def _attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = _with_sink(q.float() @ k.float().mT * 0.125)
    return (torch.softmax(scores, -1)[..., :-1] @ v.float()).to(q.dtype)


def _less_its_largest(q: Tensor, k: Tensor, v: Tensor, *, gain: float = 1.0) -> Tensor:
    """Return attention whose logits are stored less the largest of their row, as gpt-oss has it."""
    scores = _with_sink(q @ k.mT * 0.125)
    scores = (scores - scores.amax(-1, keepdim=True)) * gain
    return torch.softmax(scores, -1, dtype=scores.dtype)[..., :-1] @ v


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_logits_may_be_stored_less_the_largest_of_their_row(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = DType.FLOAT16 if dtype is torch.float16 else DType.BFLOAT16
    output = spec(low.value, "heads", "queries", "width")

    def share(seed: int, *, gain: float = 1.0) -> float:
        q, k, v = (normal(4, 96, 32, seed=3 * seed + n).to(dtype) for n in range(3))
        family = family_of(Precision.MIXED, low)
        truth = make_truth(_attended, [q, k, v], [output], seed=seed, family=family).outputs[0]
        return measure(_less_its_largest(q, k, v, gain=gain), truth).share

    assert max(share(seed) for seed in range(3)) < 0.8
    assert min(share(seed, gain=1.02) for seed in range(3)) > 1.0
    monkeypatch.delitem(WRITTEN_OUT, "_softmax")
    assert max(share(seed) for seed in range(3)) > 0.8


@pytest.mark.parametrize(
    "written",
    [
        lambda x: x * (functional.relu6(x + 3.0) / 6.0),
        lambda x: x * functional.relu6(x + 3.0) / 6.0,
    ],
)
def test_hard_swish_is_divided_before_or_after_the_product(
    written: Callable[[Tensor], Tensor],
) -> None:
    """Beyond 3 the first way is exact, and the second one rounds 6 x."""
    for seed in (1, 2, 3):
        x = (2.0 * normal(32, 1408, seed=seed)).half()
        x[:, ::300] *= 50.0
        (truth,) = make_truth(
            lambda x: functional.hardswish(x.float()).to(x.dtype),
            [x],
            [spec("float16", "rows", "hidden")],
            seed=seed,
            family=family_of(Precision.MIXED, DType.FLOAT16),
        ).outputs
        assert measure(written(x), truth).passed
        assert not measure(x * torch.sigmoid(x), truth).passed

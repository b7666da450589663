"""Families of trusted kernels: what each explains, what none does, and the policy of a problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from cuassay.catalog import registry
from cuassay.errors import UnknownNameError
from cuassay.hooks import Operation
from cuassay.model.dtype import DType
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision, precision_named
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import Comparison, measure
from cuassay.oracle.grade import NO_FAMILY, grade, least_family
from cuassay.oracle.truth.make import Truth, make_truth
from cuassay.oracle.truth.precision import Drawn, Family, Stored, family_of
from cuassay.oracle.truth.random_errors import Noise
from tests.support.oracle_cases import normal, spec

Product = Callable[[Tensor, Tensor], Tensor]
_TOKENS, _WIDTH, _HIDDEN = 48, 96, 224


def _spec(output: Tensor, *shape: str) -> TensorSpec:
    return spec(str(output.dtype).removeprefix("torch."), *shape)


def _reference(grad: Tensor, x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return _backward(grad, x, gate, up, down)


def _backward(
    *inputs: Tensor,
    store: Callable[[Tensor], Tensor] = lambda t: t,
    product: Product = torch.matmul,
) -> Tensor:
    """The gradient of a SwiGLU block with respect to x."""
    grad, x, gate, up, down = (t.float() for t in inputs)
    a, b, back = (store(p) for p in (x @ gate.t(), x @ up.t(), grad @ down))
    sigmoid = torch.sigmoid(a)
    grad_up = store(back * a * sigmoid)
    grad_gate = store(back * b * sigmoid * (1.0 + a * (1.0 - sigmoid)))
    return (product(grad_gate, gate) + product(grad_up, up)).to(inputs[1].dtype)


def _rounded(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda t: t.to(dtype).float()


def _tiles(size: int) -> Product:
    def added(a: Tensor, b: Tensor) -> Tensor:
        total = torch.zeros(a.shape[0], b.shape[1])
        for left, right in zip(torch.split(a, size, 1), torch.split(b, size, 0), strict=True):
            total = (total + left @ right).bfloat16().float()
        return total

    return added


def _tf32(x: Tensor) -> Tensor:
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@cache
def _inputs(dtype: torch.dtype) -> tuple[Tensor, ...]:
    shapes = ((_TOKENS, _WIDTH), (_TOKENS, _WIDTH), (_HIDDEN, _WIDTH), (_HIDDEN, _WIDTH))
    made = [normal(*shape, seed=seed) for seed, shape in enumerate((*shapes, (_WIDTH, _HIDDEN)))]
    for weight in made[2:]:
        weight /= weight.shape[1] ** 0.5
    return tuple(t.to(dtype) for t in made)


@cache
def _truth(dtype: torch.dtype, precision: Precision, low: DType = DType.BFLOAT16) -> Truth:
    inputs = _inputs(dtype)
    output = _spec(_reference(*inputs), "t", "w")
    return make_truth(_reference, inputs, [output], seed=3, family=family_of(precision, low))


def _graded(
    candidate: Tensor,
    dtype: torch.dtype,
    policy: Precision = Precision.MIXED,
    low: DType = DType.BFLOAT16,
) -> Comparison:
    def within(precision: Precision) -> Comparison:
        return measure(candidate, _truth(dtype, precision, low).outputs[0])

    return least_family(within(Precision.STRICT), within, policy.families)


def test_stored_intermediates_are_graded_mixed_and_leave_room() -> None:
    inputs = _inputs(torch.bfloat16)
    found = _graded(_backward(*inputs, store=_rounded(torch.bfloat16)), torch.bfloat16)
    assert found.passed
    assert found.precision is Precision.MIXED
    assert found.share < 0.7
    assert not _graded(
        _backward(*inputs, store=_rounded(torch.bfloat16)), torch.bfloat16, Precision.STRICT
    ).passed


def test_float16_intermediates_of_a_float16_problem_are_graded_mixed() -> None:
    inputs = _inputs(torch.float16)
    stored = _backward(*inputs, store=_rounded(torch.float16))
    found = _graded(stored, torch.float16, low=DType.FLOAT16)
    assert found.passed
    coarse = _backward(*inputs, store=_rounded(torch.bfloat16))
    assert not _graded(coarse, torch.float16, low=DType.FLOAT16).passed


def test_the_reference_and_a_more_exact_kernel_stay_strict() -> None:
    inputs = _inputs(torch.bfloat16)
    exact = _backward(*(t.double() for t in inputs)).to(torch.bfloat16)
    for candidate in (_reference(*inputs), exact):
        assert _graded(candidate, torch.bfloat16).precision is Precision.STRICT


def test_sums_kept_in_16_bits_are_no_mixed_precision() -> None:
    inputs = _inputs(torch.bfloat16)
    running = _backward(*inputs, store=_rounded(torch.bfloat16), product=_tiles(1))
    assert not _graded(running, torch.bfloat16).passed


@pytest.mark.parametrize("factor", [1.004, 0.996])
def test_a_gain_of_half_a_percent_is_no_mixed_precision(factor: float) -> None:
    inputs = _inputs(torch.bfloat16)
    wrong = (_reference(*inputs).float() * factor).bfloat16()
    assert not _graded(wrong, torch.bfloat16).passed


def test_operands_in_tf32_are_graded_tf32_and_bfloat16_operands_are_not() -> None:
    a, b = normal(40, 256, seed=1), normal(256, 32, seed=2)
    output = _spec(a @ b, "m", "n")
    truths = {
        precision: make_truth(
            torch.matmul, [a, b], [output], seed=1, family=family_of(precision, DType.BFLOAT16)
        )
        for precision in Precision
    }

    def graded(candidate: Tensor, policy: Precision) -> Comparison:
        def within(precision: Precision) -> Comparison:
            return measure(candidate, truths[precision].outputs[0])

        return least_family(within(Precision.STRICT), within, policy.families)

    tensor_cores, coarse = _tf32(a) @ _tf32(b), a.bfloat16().float() @ b.bfloat16().float()
    assert graded(tensor_cores, Precision.TF32).precision is Precision.TF32
    assert graded(tensor_cores, Precision.MIXED).precision is Precision.TF32
    assert not graded(tensor_cores, Precision.STRICT).passed
    assert not graded(coarse, Precision.TF32).passed
    assert graded(coarse, Precision.MIXED).precision is Precision.MIXED


def test_what_no_family_explains_is_measured_by_the_widest_that_is_accepted() -> None:
    """A kernel that overspends what its policy allows by little is looked at a second time."""
    inputs = _inputs(torch.bfloat16)
    gain = (_backward(*inputs, store=_rounded(torch.bfloat16)).float() * 1.004).bfloat16()
    strict, mixed = _graded(gain, torch.bfloat16, Precision.STRICT), _graded(gain, torch.bfloat16)
    assert not strict.passed
    assert not mixed.passed
    assert mixed.share == measure(gain, _truth(torch.bfloat16, Precision.MIXED).outputs[0]).share
    assert 1.0 < mixed.share < strict.share
    assert grade([mixed]) == NO_FAMILY


def test_statistics_of_a_row_stay_in_float32() -> None:
    """A mean square or its root in bfloat16 moves a whole row: no rounding of an intermediate."""
    x = normal(32, 512, dtype=torch.bfloat16)

    def norm(v: Tensor, low: Callable[[Tensor], Tensor] = lambda t: t) -> Tensor:
        wide = v.float()
        rstd = low(torch.rsqrt(low(wide.square().mean(-1, keepdim=True)) + 1e-6))
        return (wide * rstd).to(v.dtype)

    family = family_of(Precision.MIXED, DType.BFLOAT16)
    truth = make_truth(norm, [x], [_spec(norm(x), "r", "h")], seed=1, family=family).outputs[0]
    assert measure(norm(x), truth).passed
    assert not measure(norm(x, _rounded(torch.bfloat16)), truth).passed


def test_what_comes_from_float32_inputs_alone_is_not_rounded() -> None:
    """Angles of a rotary embedding: rounded to bfloat16 they would be off by radians."""
    x, frequency = normal(64, 32, dtype=torch.bfloat16), torch.logspace(0, -3, 32)

    def rotate(v: Tensor, f: Tensor) -> Tensor:
        angle = torch.arange(v.shape[0]).float()[:, None] * f
        return (v.float() * angle.cos()).to(v.dtype)

    family = family_of(Precision.MIXED, DType.BFLOAT16)
    output = _spec(rotate(x, frequency), "t", "d")
    truth = make_truth(rotate, [x, frequency], [output], seed=1, family=family).outputs[0]
    assert measure(rotate(x, frequency), truth).share > 0.05
    angle = (torch.arange(64).float()[:, None] * frequency).bfloat16().float()
    assert not measure((x.float() * angle.cos()).bfloat16(), truth).passed


def test_the_grade_is_the_least_family_that_explains_every_comparison() -> None:
    passed = Comparison(output="y", passed=True, share=0.5)
    low = dataclasses.replace(passed, precision=Precision.MIXED)
    failed = Comparison(output="y", passed=False, share=9.0)
    beyond = dataclasses.replace(failed, precision=Precision.TF32)
    assert grade([]) == grade([passed]) == "strict"
    assert grade([passed, low]) == "mixed"
    assert grade([passed, beyond, failed]) == "tf32"
    assert grade([passed, failed]) == NO_FAMILY


def test_the_default_policy_follows_the_types_and_what_is_stated_wins() -> None:
    assert policy_of(registry.get("swiglu")) is Precision.MIXED
    assert policy_of(registry.get("swiglu", dtype="float32")) is Precision.STRICT
    assert registry.get("swiglu", dtype="float16").low_type is DType.FLOAT16
    stated = dataclasses.replace(registry.get("swiglu"), precision=Precision.STRICT)
    assert policy_of(stated) is Precision.STRICT


def test_an_unknown_policy_names_the_known_ones() -> None:
    assert precision_named("mixed") is Precision.MIXED
    assert precision_named(None) is None
    with pytest.raises(UnknownNameError, match="strict"):
        precision_named("bf16")


def test_memory_used_again_is_not_what_it_was() -> None:
    """A product stored in 16 bits is let go; a weight lifted into its memory is not stored so."""
    noise = Noise(1, 2.0**-24, torch.device("cpu"))
    stored = Stored(Family(intermediates=torch.bfloat16), Drawn(noise))
    product = Operation(torch.ops.aten.mm.default, (normal(64, 64), normal(64, 64)), {})
    met = 0
    for _ in range(50):
        plain: Any = product.run().double()
        plain.cuassay_nominal = torch.float32
        kept = stored.result(product, plain, plain)
        assert stored.is_stored([kept], torch.bfloat16)
        addresses = {plain.data_ptr(), kept.data_ptr()}
        del kept, plain
        for other in [torch.zeros(64, 64, dtype=torch.float64) for _ in range(3)]:
            assert not stored.is_stored([other], torch.bfloat16)
            met += other.data_ptr() in addresses
    assert met

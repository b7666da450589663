"""The least family that explains an error, also where a wider one does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.compare.outputs import Comparison, Statistic, measure
from cuassay.oracle.grade import least_family
from cuassay.oracle.truth import programs
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import OutputTruth
from tests.support.oracle_cases import normal, spec

_FAMILIES = Precision.MIXED.families


def _reference(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    scores = (q.float() @ k.float().T) * decay
    return (scores @ v.float()).to(q.dtype)


def _cut(values: Tensor) -> Tensor:
    """Return float32 numbers as tensor cores read them for TF32: the last 13 bits are dropped."""
    return (values.view(torch.int32) & -(1 << 13)).view(torch.float32)


def _on_tensor_cores(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    scores = (q.float() @ k.float().T) * decay
    return (_cut(scores) @ v.float()).to(q.dtype)


def _sums_in_16_bits(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    scores = _cut((q.float() @ k.float().T) * decay)
    total = torch.zeros(len(q), v.shape[1], dtype=q.dtype)
    for term in range(len(k)):
        total = total + (scores[:, term, None] * v[term].float()).to(q.dtype)
    return total


def _truths(
    inputs: list[Tensor],
    seed: int,
    *,
    of: Callable[..., Tensor] = _reference,
    named: str = "bfloat16",
) -> dict[Precision, OutputTruth]:
    def made(precision: Precision) -> OutputTruth:
        family = family_of(precision, DType.BFLOAT16)
        output = spec(named, "rows", "columns")
        return make_truth(of, inputs, [output], seed=seed, family=family).outputs[0]

    return {precision: made(precision) for precision in _FAMILIES}


@pytest.mark.parametrize("seed", [0, 1])
def test_operands_cut_off_for_tf32_belong_to_mixed_which_rounds_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(size, 96, generator=generator).bfloat16() for size in (600, 64, 64))
    decay = torch.rand(600, 64, generator=generator)
    inputs = [q, k, v, decay]
    truths = _truths(inputs, seed)

    def judged(got: Tensor) -> Comparison:
        found = measure(got, truths[Precision.STRICT])
        return least_family(found, lambda family: measure(got, truths[family]), _FAMILIES)

    cut = _on_tensor_cores(*inputs)
    assert measure(cut, truths[Precision.MIXED]).share < 0.9
    with monkeypatch.context() as without:
        without.setattr(programs.ProgramHook, "multiplies_wide", False)
        alone = _truths(inputs, seed)[Precision.MIXED]
    assert not measure(cut, alone).passed, "the case shows nothing"
    found = judged(cut)
    assert found.passed, found.worst
    assert found.precision is Precision.TF32
    for wrong in (_sums_in_16_bits(*inputs), _reference(*inputs) * 1.01):
        assert not judged(wrong).passed


def _of(name: str, share: float) -> Comparison:
    statistic = Statistic(name=name, value=share, limit=1.0, group="whole tensor")
    return Comparison(output="y", passed=share <= 1.0, share=share, statistics=(statistic,))


def _coded(x: Tensor, weight: Tensor) -> Tensor:
    y = x.float() * weight.float()
    return (y / 0.05).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)


@pytest.mark.parametrize("seed", [0, 1])
def test_codes_of_a_stored_intermediate_are_those_of_a_family(seed: int) -> None:
    """A rounding to 16 bits moves some numbers to the next code; cut codes are others."""
    generator = torch.Generator().manual_seed(seed)
    x, weight = (torch.randn(*shape, generator=generator).bfloat16() for shape in ((40, 96), (96,)))
    truths = _truths([x, weight], seed, of=_coded, named="float8_e4m3fn")

    def judged(got: Tensor) -> Comparison:
        found = measure(got, truths[Precision.STRICT])
        return least_family(found, lambda family: measure(got, truths[family]), _FAMILIES)

    stored = ((x * weight).float() / 0.05).clamp(-448.0, 448.0)
    assert not measure(stored.to(torch.float8_e4m3fn), truths[Precision.STRICT]).passed
    found = judged(stored.to(torch.float8_e4m3fn))
    assert found.passed, found.worst
    assert found.precision is Precision.MIXED
    cut = (stored.contiguous().view(torch.int32) & ~0xFFFFF).view(torch.float32)
    assert not judged(cut.to(torch.float8_e4m3fn)).passed
    assert not judged((stored * 1.3).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)).passed


def test_what_no_family_explains_is_measured_by_the_widest() -> None:
    found = least_family(_of("P", 3.0), lambda family: _of("P", 1.5), _FAMILIES)
    assert not found.passed
    assert found.share == 1.5
    assert found.precision is Precision.STRICT


def _scaled_twice(values: Tensor, scale: Tensor) -> Tensor:
    return (values.float() * scale.float() * scale.float()).to(values.dtype)


@pytest.mark.parametrize(
    ("policy", "dtype", "passes"),
    [
        (Precision.MIXED, torch.float16, True),
        (Precision.STRICT, torch.float16, False),
        (Precision.MIXED, torch.bfloat16, False),  # its intermediates do not overflow
    ],
)
def test_what_overflows_may_be_nan_where_float16_intermediates_may_overflow_before(
    policy: Precision, dtype: torch.dtype, passes: bool
) -> None:
    values, scale = normal(16, 64, seed=1).to(dtype), torch.ones(64, dtype=dtype)
    size = 1e3 if dtype is torch.float16 else 1e30
    values[3] = 0.9
    scale[5] = size
    output = spec(str(dtype).removeprefix("torch."), "rows", "columns")

    def measure_in(precision: Precision) -> Comparison:
        family = family_of(precision, output.dtype)
        made = make_truth(_scaled_twice, [values, scale], [output], seed=4, family=family)
        return measure(got, made.outputs[0])

    got = _scaled_twice(values, scale)
    got[3, 5] = torch.nan
    found = least_family(measure_in(Precision.STRICT), measure_in, policy.families)
    assert found.passed is passes
    got[3, 6] = torch.nan  # beside a result that the type holds
    found = least_family(measure_in(Precision.STRICT), measure_in, policy.families)
    assert not found.passed

"""Raw numbers brought into domains: bounds as the type can show them, and structures."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay.inputs.fills import make
from cuassay.inputs.legal import narrowed, structure_of, structured
from cuassay.model.case import ALSO, Fill
from cuassay.model.device import CPU
from cuassay.model.domain import Domain, Positive, Probability, Real, Structure
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec


def _drawn(domain: Domain, *, dtype: DType = DType.FLOAT32, kind: str = "normal",
           **parameters: float | str) -> torch.Tensor:  # fmt: skip
    spec = TensorSpec(name="x", dtype=dtype, shape=("64", "32"), domain=domain)
    fill = Fill(kind=kind, parameters=parameters)
    return make(spec, fill, sizes={}, seed=5, device=CPU)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16])
@pytest.mark.parametrize(("low", "high"), [(0.1, 0.7), (-0.3, None), (None, 0.3), (1.0, 1.0)])
def test_no_number_lies_beyond_a_bound_though_the_type_cannot_show_it(
    dtype: DType, low: float | None, high: float | None
) -> None:
    found = _drawn(Real(low=low, high=high), dtype=dtype, scale=5.0).double()
    assert low is None or float(found.min()) >= low
    assert high is None or float(found.max()) <= high


def test_numbers_that_are_legal_stay_and_none_pile_up_at_a_bound() -> None:
    free, bounded = _drawn(Real()), _drawn(Real(low=-0.5, high=0.5))
    legal = free.abs() <= 0.5
    assert torch.equal(bounded[legal], free[legal])
    assert int((bounded.abs() == 0.5).sum()) < 5


def test_large_numbers_end_at_the_largest_one_of_the_type() -> None:
    found = _drawn(Real(), dtype=DType.FLOAT16, scale=1e9)
    assert bool(found.isfinite().all())
    assert float(found.max()) == 65504.0


def test_probabilities_sum_to_one_and_positive_numbers_are_positive() -> None:
    sums = _drawn(Probability(), scale=3.0).sum(-1)
    assert torch.allclose(sums, torch.ones(64), atol=1e-5)
    positive = _drawn(Positive(low=0.25, high=8.0), kind="cauchy")
    assert (float(positive.min()), float(positive.max())) >= (0.25, 0.25)
    assert float(positive.max()) <= 8.0


def test_numbers_that_are_not_finite_never_begin_a_row() -> None:
    assert ALSO == "also"
    found = _drawn(Real(also=("-inf",)), also="-inf")
    assert bool(found[:, 0].isfinite().all())
    share = float((found == -math.inf).double().mean())
    assert 0.15 < share < 0.35
    # So two inputs have one at the same place, whatever is drawn.
    assert bool((found[::2, -1] == -math.inf).all())


@pytest.mark.parametrize("structure", Structure)
def test_a_matrix_has_the_structure_that_it_was_given(structure: Structure) -> None:
    raw = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(1))
    made = structured(Real(structure=structure), raw)
    assert structure_of(made) is structure
    assert torch.equal(structured(Real(structure=structure), made), made)  # nothing more to do
    if structure is Structure.POSITIVE_DEFINITE:
        assert torch.equal(made, made.mT)
        assert float(torch.linalg.eigvalsh(made.double()).min()) > 0


def test_a_row_of_zeros_is_no_hole_in_a_positive_definite_matrix() -> None:
    raw = torch.zeros(4, 4)
    made = structured(Real(structure=Structure.POSITIVE_DEFINITE), raw)
    assert torch.equal(made, torch.eye(4))


def test_one_number_and_eight_bits_have_no_structure() -> None:
    assert structure_of(torch.ones(1, 1)) is Structure.GENERAL
    assert structure_of(torch.eye(4).to(torch.float8_e4m3fn)) is Structure.GENERAL
    assert structure_of(torch.ones(4, 5)) is Structure.GENERAL


def test_numbers_of_a_narrower_type_are_its_own() -> None:
    value = torch.tensor([1.0 + 2.0**-12, 3.0])
    found = narrowed(Real(numbers_of="bfloat16"), value)
    assert found.tolist() == [1.0, 3.0]
    assert found.dtype is torch.float32
    assert narrowed(Real(), value) is value

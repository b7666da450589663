"""For any shape, dtype, fill and seed: legal, finite, representable, reproducible."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cuassay.inputs.fills import kinds_for, make
from cuassay.model.case import Fill
from cuassay.model.device import CPU
from cuassay.model.domain import Domain, Index, Positive, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec

SHAPES = st.tuples(st.integers(0, 9), st.integers(0, 9))
DTYPES = st.sampled_from([DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16])
BOUNDS = st.floats(-1e4, 1e4, allow_nan=False, width=16)


def fills_of(domain: Domain, dtype: DType) -> tuple[str, ...]:
    spec = TensorSpec(name="x", dtype=dtype, shape=(), domain=domain)
    return tuple(kind for kind in kinds_for(spec) if kind != "explicit")


@given(st.data(), SHAPES, DTYPES, BOUNDS, BOUNDS, st.integers(0, 2**62))
def test_real_fills_stay_within_bounds(
    data: st.DataObject, shape: tuple[int, int], dtype: DType, a: float, b: float, seed: int
) -> None:
    domain = Real(low=min(a, b), high=max(a, b) + 1.0 + 0.02 * max(abs(a), abs(b)))
    kind = data.draw(st.sampled_from(fills_of(domain, dtype)))
    spec = TensorSpec(name="x", dtype=dtype, shape=("m", "n"), domain=domain)
    sizes = dict(zip("mn", shape, strict=True))
    made = make(spec, Fill(kind=kind), sizes=sizes, seed=seed, device=CPU)
    again = make(spec, Fill(kind=kind), sizes=sizes, seed=seed, device=CPU)
    assert made.shape == shape
    assert torch.equal(made, again)
    if made.numel():
        assert domain.low is not None
        assert domain.high is not None
        assert domain.low <= float(made.double().min())
        assert float(made.double().max()) <= domain.high


@given(st.data(), SHAPES, DTYPES, st.integers(0, 2**62))
def test_positive_stays_positive(
    data: st.DataObject, shape: tuple[int, int], dtype: DType, seed: int
) -> None:
    domain = Positive()
    kind = data.draw(st.sampled_from(fills_of(domain, dtype)))
    spec = TensorSpec(name="x", dtype=dtype, shape=("m", "n"), domain=domain)
    sizes = dict(zip("mn", shape, strict=True))
    made = make(spec, Fill(kind=kind), sizes=sizes, seed=seed, device=CPU).double()
    assert ((made >= domain.low) & (made <= domain.high)).all()


@given(st.data(), st.integers(0, 30), st.integers(1, 40), st.booleans(), st.integers(0, 2**62))
def test_indices_stay_in_range(
    data: st.DataObject, count: int, axis: int, unique: bool, seed: int
) -> None:
    unique = unique and count <= axis
    domain = Index(axis="vocab", unique=unique, sentinels=(-1,))
    kind = data.draw(st.sampled_from(fills_of(domain, DType.INT64)))
    spec = TensorSpec(name="i", dtype=DType.INT64, shape=("n",), domain=domain)
    sizes = {"n": count, "vocab": axis}
    made = make(spec, Fill(kind=kind), sizes=sizes, seed=seed, device=CPU)
    assert ((made >= -1) & (made < axis)).all()
    assert kind == "sentinel" or (made >= 0).all()
    if unique:
        assert len(set(made.tolist())) == count

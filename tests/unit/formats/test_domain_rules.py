"""Which domain an input may have: what fits is taken, what does not is told with a remedy."""

from __future__ import annotations

import math

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.domain_rules import check_domain, check_ties, domain_words, within
from cuassay.model.domain import (
    Choice,
    Domain,
    Index,
    IntegerRange,
    Lengths,
    Mask,
    Offsets,
    Packed,
    Positive,
    Probability,
    Real,
    Structure,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import Scalar, ScalarSpec, TensorSpec


def _tensor(
    domain: Domain, dtype: DType = DType.FLOAT32, shape: tuple[str, ...] = ("n", "m")
) -> TensorSpec:
    return TensorSpec(name="x", dtype=dtype, shape=shape, domain=domain)


def _scalar(domain: Domain, dtype: DType = DType.FLOAT32) -> ScalarSpec:
    return ScalarSpec(name="s", dtype=dtype, domain=domain)


@pytest.mark.parametrize(
    "spec",
    [
        _tensor(Real()),
        _tensor(Real(low=-1.0, high=1.0, also=("-inf",))),
        _tensor(Real(numbers_of="float16")),
        _tensor(Real(structure=Structure.SYMMETRIC), shape=("n", "n")),
        _tensor(Positive(low=1e-30)),
        _tensor(Positive(low=5.9e-8, high=6e-8), DType.FLOAT16),  # the smallest subnormal
        _tensor(Probability(axis=-1)),
        _tensor(Index(axis="n", sentinels=(-100,)), DType.INT64),
        _tensor(Packed(bits=4), DType.UINT8),
        _tensor(Offsets(axis="n"), DType.INT32, ("b",)),
        _tensor(Mask(kind="causal", additive=True)),
        _scalar(IntegerRange(low=0, high=7), DType.INT32),
        _scalar(Choice(values=(True,)), DType.BOOL),
    ],
)
def test_what_fits_is_taken(spec: TensorSpec | ScalarSpec) -> None:
    check_domain(spec, where="p")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (_tensor(Index(axis="n")), "kind 'index' does not fit 'x', float32[n, m]"),
        (_scalar(Mask(kind="padding")), "kind 'mask' does not fit the float32 scalar 's'"),
        (_tensor(Real(low=2.0, high=1.0)), "low 2.0 is above high 1.0; swap or correct them"),
        (_tensor(Real(low=math.nan)), "a bound is NaN"),
        (_tensor(Positive(low=0.0)), "expected a number above 0 for kind 'positive'"),
        (_tensor(Real(low=1e5), DType.FLOAT16), "no float16 number is real in [100000.0, inf]"),
        (_tensor(Positive(low=1e-9, high=2e-9), DType.FLOAT16), "no float16 number is"),
        (_tensor(Real(also=("inff",))), "did you mean 'inf'"),
        (_tensor(Real(also=("nan",)), DType.FLOAT8_E5M2), "expected a tensor of 16 bits or more"),
        (_tensor(Real(numbers_of="float64")), "a narrower dtype: float16, bfloat16"),
        (_tensor(Real(structure=Structure.SYMMETRIC)), "expected two last dimensions of one axis"),
        (_tensor(Probability(axis=2)), "axis is 2, but 'x', float32[n, m] has 2 dimensions"),
        (_tensor(Offsets(axis="n"), DType.INT32), "expected one dimension"),
        (_tensor(Mask(kind="causl")), "did you mean 'causal'"),
        (_tensor(Mask(kind="causal"), shape=("n",)), "expected two dimensions or more"),
        (_tensor(Mask(kind="padding", additive=True), DType.BOOL), "or additive = false"),
        (_tensor(Mask(kind="causal", lengths="l")), "a causal mask has no lengths"),
        (_tensor(Packed(bits=3), DType.UINT8), "bits is 3"),
        (_tensor(Index(axis="n", sentinels=(-1,)), DType.UINT8), "-1 is no uint8, which holds 0"),
        (_tensor(IntegerRange(low=0, high=300), DType.INT8), "300 is no int8"),
        (_tensor(Lengths(axis="n", low=-1), DType.INT32), "low is -1, expected 0 or more"),
        (
            _tensor(IntegerRange(low=0, high="classes - 1"), DType.INT64),  # type: ignore[arg-type]
            "a bound is 'classes - 1', expected a number. Indices below the size of an axis are "
            "domains.Index(axis='classes')",
        ),
        (_tensor(Real(high=True)), "a bound is True, expected a number"),
        (_scalar(Choice(values=())), "values is empty"),
        (_scalar(Choice(values=(1, True)), DType.INT32), "True is no value of the int32 scalar"),
        (_scalar(Choice(values=(math.inf,))), "inf is no value"),
    ],
)
def test_what_does_not_fit_is_told(spec: TensorSpec | ScalarSpec, message: str) -> None:
    with pytest.raises(ProblemError) as failure:
        check_domain(spec, where="p.json: inputs")
    assert str(failure.value).startswith("p.json: inputs: ")
    assert message in str(failure.value)


def test_lengths_are_integers_one_for_each_row() -> None:
    spec = _tensor(Index(axis="n", lengths="l"), DType.INT64)
    good = TensorSpec(name="l", dtype=DType.INT32, shape=("n",), domain=Lengths(axis="m"))
    check_ties([spec, good], where="p")
    wide = TensorSpec(name="l", dtype=DType.INT32, shape=("m",), domain=Lengths(axis="m"))
    for others, message in (([], "unknown input 'l'"), ([wide], "of the shape [n], one for each")):
        with pytest.raises(ProblemError) as failure:
            check_ties([spec, *others], where="p")
        assert message in str(failure.value)


@pytest.mark.parametrize(
    ("value", "domain", "expected"),
    [
        (1, Choice(values=(1, 2)), True),
        (3, Choice(values=(1, 2)), False),
        (5.0, Real(low=0.0), True),
        (-1.0, Real(low=0.0), False),
        (1e300, Real(), True),
        (7, IntegerRange(low=0, high=7), True),
        (8, IntegerRange(low=0, high=7), False),
    ],
)
def test_a_scalar_lies_within_or_not(value: Scalar, domain: Domain, expected: bool) -> None:
    assert within(value, domain) is expected


def test_domains_in_words() -> None:
    words: dict[str, Domain] = {
        "one of 1, 2": Choice(values=(1, 2)),
        "a finite number": Real(),
        "real in [0.0, inf] or nan": Real(low=0.0, also=("nan",)),
        "an index into vocab or -100, none twice": Index(
            axis="vocab", sentinels=(-100,), unique=True
        ),
        "codes of 4 bits from 0 to 15": Packed(bits=4),
        "an integer in [0, 7]": IntegerRange(low=0, high=7),
    }
    assert [domain_words(domain) for domain in words.values()] == list(words)

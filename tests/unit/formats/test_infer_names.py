"""Domains told by names: what is a habit of the field is used, what may mean more is not."""

from __future__ import annotations

import math

import pytest

from cuassay.catalog import registry
from cuassay.formats.infer_names import (
    float_domain,
    mask_domain,
    scalar_domain,
    sentinels,
    tokens,
)
from cuassay.model.domain import Choice, Domain, IntegerRange, Mask, Positive, Probability, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Scalar, ScalarSpec, TensorSpec


def _tensor(name: str, *, told: str = "", shape: tuple[str, ...] = ("n", "m")) -> TensorSpec:
    return TensorSpec(
        name=name, dtype=DType.FLOAT32, shape=shape, domain=Real(low=-1, high=1), description=told
    )


def _scalar(name: str, dtype: DType = DType.FLOAT32) -> ScalarSpec:
    return ScalarSpec(name=name, dtype=dtype, domain=Real(low=0, high=1))


def test_words_of_a_name() -> None:
    assert tokens("norm2_weight") == {"norm", "weight"}
    assert tokens("Q.k-V__3") == {"q", "k", "v"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (_tensor("rstd"), Positive()),
        (_tensor("exp_avg_sq"), Positive()),
        (_tensor("probs"), Probability()),
        (_tensor("p", told="the softmax output"), Probability()),
        (_tensor("prob", shape=()), Real(low=0.0, high=1.0)),
        (_tensor("cos_cache"), Real(low=-1.0, high=1.0)),
        (_tensor("variance_of_names"), Positive()),
        (_tensor("x"), None),
        (_tensor("A"), None),  # what a matrix product calls its operand
        (_tensor("scale"), None),  # of anything
        (_tensor("scale", told="scale of the quantized weight"), Positive()),
    ],
)
def test_floating_tensors(spec: TensorSpec, expected: Domain | None) -> None:
    assert float_domain(spec) == expected


def test_state_space_names_count_where_an_exponential_is_taken() -> None:
    assert float_domain(_tensor("A_log"), source="torch.exp(A_log)") == Real(low=-4.0, high=1.0)
    assert float_domain(_tensor("A_log"), source="A_log @ B") is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (_tensor("attention_mask", shape=("n", "n")), Mask(kind="causal", additive=True)),
        (_tensor("attn_mask", shape=("b", "n")), Mask(kind="arbitrary", additive=True)),
        (_tensor("padding_mask", told="0 or 1"), Mask(kind="padding", additive=False)),
        (_tensor("dropout_mask"), Mask(kind="arbitrary", additive=False)),
        (_tensor("mask", told="additive, causal"), Mask(kind="causal", additive=True)),
    ],
)
def test_masks(spec: TensorSpec, expected: Mask) -> None:
    assert mask_domain(spec) == expected
    assert float_domain(spec) == expected


@pytest.mark.parametrize(
    ("name", "dtype", "seen", "expected"),
    [
        ("eps", DType.FLOAT32, [1e-5], Real(low=1e-8, high=1e-2)),
        ("eps", DType.FLOAT32, [0.5], Real(low=1e-8, high=0.5)),
        ("beta1", DType.FLOAT32, [0.9], Real(low=0.0, high=0.999)),
        ("dropout_p", DType.FLOAT32, [0.1], Real(low=0.0, high=0.9)),
        ("lr", DType.FLOAT32, [0.08, 0.16], Real(low=0.01, high=1.28)),
        ("offset", DType.FLOAT32, [-8.0], Real(low=-64.0, high=-1.0)),
        ("offset", DType.FLOAT32, [-1.0, 2.0], Real(low=-2.0, high=4.0)),
        ("offset", DType.FLOAT32, [0.0], Choice(values=(0.0,))),
        ("limit", DType.FLOAT32, [math.inf], Choice(values=(math.inf,))),
        ("step", DType.INT64, [3], IntegerRange(low=1, high=1000)),
        ("step", DType.INT64, [0, 3], Choice(values=(0, 3))),
        ("heads", DType.INT64, [8, 4, 8], Choice(values=(8, 4))),
        ("causal", DType.BOOL, [], Choice(values=(False, True))),
        ("anything", DType.FLOAT32, [], None),
    ],
)
def test_scalars_are_moved_around_the_values_seen(
    name: str, dtype: DType, seen: list[Scalar], expected: Domain | None
) -> None:
    assert scalar_domain(_scalar(name, dtype), seen) == expected


def test_ignored_labels_are_known_where_the_problem_speaks_of_them() -> None:
    problem = registry.get("rmsnorm")
    labels = TensorSpec(
        name="labels", dtype=DType.INT64, shape=("n",), domain=IntegerRange(low=0, high=9),
        description="-100 is ignored",
    )  # fmt: skip
    assert sentinels(problem, labels) == (-100,)
    assert sentinels(problem, _tensor("labels")) == ()
    assert sentinels(problem, _tensor("x", told="-100")) == ()

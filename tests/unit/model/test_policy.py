"""The default precision policy follows the large tensors."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.catalog import registry
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.policy import chosen_note, policy_of
from cuassay.model.precision import Precision
from cuassay.model.problem import TensorSpec


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("swiglu", Precision.MIXED),
        ("swiglu@float16", Precision.MIXED),
        ("swiglu@float32", Precision.STRICT),
        ("rope_neox", Precision.MIXED),  # float32 tables beside 16-bit queries
        ("moe_combine", Precision.MIXED),  # float32 weights of two experts a token
        ("rmsnorm_backward", Precision.MIXED),  # a float32 number a row
        ("cross_entropy", Precision.STRICT),  # float32 losses
        ("adamw_step", Precision.STRICT),  # float32 moments
        ("fp8_gemm", Precision.FP8),
        ("fp8_gemm_block", Precision.FP8),
        ("quantize_fp8_per_row", Precision.MIXED),  # codes of 16-bit numbers
        ("quantize_int8_per_row", Precision.MIXED),
        ("dequantize_int8_per_row", Precision.STRICT),
        ("moe_route", Precision.STRICT),
    ],
)
def test_catalogued_operators(name: str, policy: Precision) -> None:
    assert policy_of(registry.get(name)) is policy


def test_a_large_float32_input_makes_it_strict_and_what_is_stated_wins() -> None:
    problem = registry.get("swiglu")
    wide = TensorSpec(name="z", dtype=DType.FLOAT32, shape=("rows", "hidden"), domain=Real())
    small = dataclasses.replace(wide, shape=("hidden",))
    with_wide, with_small = (
        dataclasses.replace(problem, inputs=(*problem.inputs, one)) for one in (wide, small)
    )
    assert policy_of(with_wide) is Precision.STRICT
    assert policy_of(with_small) is Precision.MIXED
    stated = dataclasses.replace(with_wide, precision=Precision.TF32)
    assert policy_of(stated) is Precision.TF32


def test_a_note_names_the_policy_that_nobody_stated() -> None:
    problem = registry.get("swiglu")
    assert chosen_note(problem).startswith("precision policy mixed:")
    assert chosen_note(dataclasses.replace(problem, precision=Precision.MIXED)) == ""
    assert chosen_note(registry.get("swiglu@float32")) == ""


def test_without_workloads_all_floating_tensors_decide() -> None:
    problem = dataclasses.replace(registry.get("moe_combine"), workloads=())
    assert policy_of(problem) is Precision.STRICT


@pytest.mark.parametrize("policy", Precision)
def test_advice_names_the_policy_and_strict_needs_none(policy: Precision) -> None:
    said = policy.advice("bfloat16")
    assert (f"--precision {policy.value}" in said) is (policy is not Precision.STRICT)
    assert ("bfloat16" in said) is (policy is Precision.MIXED)

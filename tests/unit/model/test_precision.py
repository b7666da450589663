"""Policies of precision: each family is part of the next, and says what a kernel does."""

from __future__ import annotations

import pytest

from cuassay.errors import UnknownNameError
from cuassay.model.precision import Precision, precision_named


def test_a_policy_accepts_all_narrower_families() -> None:
    assert Precision.STRICT.families == (Precision.STRICT,)
    assert Precision.FP8.families == tuple(Precision)
    for policy in Precision:
        assert policy.families[-1] is policy


def test_what_every_policy_accepts_is_no_condition() -> None:
    assert Precision.STRICT.condition == Precision.STRICT.advice() == ""
    assert Precision.MIXED.condition == "precision: 16-bit intermediates"
    assert Precision.MIXED.advice("bfloat16") == (
        "accepted with --precision mixed: the kernel keeps intermediates in bfloat16"
    )
    for policy in (Precision.TF32, Precision.FP8):
        assert policy.condition.startswith("precision: ")
        assert f"--precision {policy.value}" in policy.advice()


def test_policies_by_name() -> None:
    assert precision_named("tf32") is Precision.TF32
    assert precision_named(Precision.FP8) is Precision.FP8
    assert precision_named(None) is None
    with pytest.raises(UnknownNameError, match="did you mean 'mixed'"):
        precision_named("mixd")

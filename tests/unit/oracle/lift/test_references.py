"""The lifted reference equals an independent float64 formula, in every style of casts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cuassay.dispatch_modes import tensors_in
from cuassay.hooks import Operation
from cuassay.oracle.lift import nominal as lift_nominal
from cuassay.oracle.lift.run import lift, nominal_of, run_as_written
from cuassay.oracle.lift.tensor import LIFTABLE
from cuassay.oracle.lift.traits import Traits
from tests.support.references_attention import ATTENTION
from tests.support.references_base import Draw, Reference, arrays
from tests.support.references_misc import MISC
from tests.support.references_mlp import MLP
from tests.support.references_norms import NORMS
from tests.support.references_sequence import SEQUENCE
from tests.support.references_training import TRAINING

REFERENCES = (*NORMS, *ATTENTION, *MLP, *SEQUENCE, *TRAINING, *MISC)
STYLES = (torch.bfloat16, torch.float16, torch.float32)


def _id(value: object) -> str:
    return value.name.replace(" ", "-") if isinstance(value, Reference) else str(value)[6:]


def test_there_are_at_least_sixty() -> None:
    assert len({reference.name for reference in REFERENCES}) >= 60


@pytest.mark.parametrize("style", STYLES, ids=_id)
@pytest.mark.parametrize("reference", REFERENCES, ids=_id)
def test_equals_formula(reference: Reference, style: torch.dtype) -> None:
    inputs = list(reference.inputs(Draw(style, 3)))
    before = [t.clone() if isinstance(t, torch.Tensor) else t for t in inputs]
    outputs = lift(reference.fn, inputs)
    expected = reference.truth(*arrays(inputs))
    expected = expected if isinstance(expected, tuple | list) else (expected,)
    assert len(outputs) == len(expected)
    for got, want in zip(outputs, expected, strict=True):
        assert got.dtype in (torch.float64, torch.complex128, torch.int64, torch.int8, torch.bool)
        assert tuple(got.shape) == np.shape(want)
        np.testing.assert_allclose(got.numpy(), want, rtol=reference.rtol, atol=1e-12)
    for was, now in zip(before, inputs, strict=True):
        assert not isinstance(was, torch.Tensor) or torch.equal(was, now)


def test_promotion_rules_agree_with_atens_own_shape_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every operation of every reference, by the short cut and on meta tensors."""
    found, differing = lift_nominal._find, set()

    def both(asked: Operation, traits: Traits) -> Any:
        rule = found(asked, traits)
        tensors = tensors_in([*asked.args, *asked.kwargs.values()])
        try:
            out = asked.on(lift_nominal._meta).run() if tensors else None
        except (RuntimeError, NotImplementedError):
            return rule
        for index, tensor in enumerate(tensors_in(out)):
            if tensor.dtype in LIFTABLE:
                nominal = lift_nominal.nominal_at(rule, index, tensor.dtype)
                if nominal is not tensor.dtype:
                    differing.add(f"{asked.op} {index}: {nominal}, ATen {tensor.dtype}")
        return rule

    monkeypatch.setattr(lift_nominal, "_find", both)
    monkeypatch.setattr(lift_nominal, "_CACHE", {})
    for style in STYLES:
        for reference in REFERENCES:
            lift(reference.fn, list(reference.inputs(Draw(style, 4))))
    assert not differing


@pytest.mark.parametrize("style", STYLES, ids=_id)
@pytest.mark.parametrize("reference", REFERENCES, ids=_id)
def test_nominal_dtype_and_float32_run(reference: Reference, style: torch.dtype) -> None:
    inputs = list(reference.inputs(Draw(style, 4)))
    written = run_as_written(reference.fn, inputs)
    truth = lift(reference.fn, inputs)
    narrow = lift(reference.fn, inputs, to=torch.float32)
    for plain, wide, single in zip(written, truth, narrow, strict=True):
        assert nominal_of(wide) is plain.dtype
        assert nominal_of(single) is plain.dtype
        assert wide.shape == plain.shape == single.shape
        if plain.is_floating_point():
            scale = float(wide.abs().max()) + 1e-30
            assert single.dtype is torch.float32
            assert float((single - wide).abs().max()) <= 1e-3 * scale
            assert float((plain.double() - wide).abs().max()) <= 0.1 * scale

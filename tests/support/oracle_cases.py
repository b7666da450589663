"""Truths of small problems that several oracle tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.truth.make import OutputTruth, Truth, make_truth
from cuassay.oracle.truth.runs import Value


def spec(dtype: str, *shape: str, name: str = "y") -> TensorSpec:
    return TensorSpec(name=name, dtype=DType(dtype), shape=shape, domain=Real())


def truth_of(
    fn: Callable[..., object], inputs: Sequence[Value], dtype: str, *shape: str, draws: int = 8
) -> OutputTruth:
    return make_truth(fn, inputs, [spec(dtype, *shape)], seed=7, draws=draws).outputs[0]


def whole(fn: Callable[..., object], inputs: Sequence[Value], *specs: TensorSpec) -> Truth:
    return make_truth(fn, inputs, specs, seed=7)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)

"""What a fill function is asked for: a shape, a generator on the device, and parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuassay.errors import ProblemError
from cuassay.model.case import FillValue
from cuassay.model.device import Device
from cuassay.model.problem import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One tensor to fill: `limit` is the size of the axis that an index input addresses."""

    spec: TensorSpec
    shape: tuple[int, ...]
    parameters: Mapping[str, FillValue]
    generator: torch.Generator
    device: Device
    work: torch.dtype  # float64 for a float64 tensor, float32 for all others
    limit: int = 0

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def number(self, name: str, default: float) -> float:
        """Return a numeric parameter. Raises ProblemError where it is not a number."""
        value = self.parameters.get(name, default)
        if isinstance(value, bool | str | tuple):
            raise ProblemError(
                f"fill parameter '{name}' of input '{self.spec.name}' is {value!r}, "
                "expected a number"
            )
        return float(value)

    def values(self) -> tuple[float, ...]:
        """Return the parameter `values` of an explicit fill as floats."""
        value = self.parameters.get("values", ())
        if not isinstance(value, tuple) or not value:
            raise ProblemError(
                f"an explicit fill of input '{self.spec.name}' needs 'values', a non-empty "
                f"tuple of numbers; got {value!r}"
            )
        return tuple(float(item) for item in value)

    def normal(self, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        """Return standard normal numbers of the working precision."""
        return torch.randn(
            self.shape if shape is None else shape,
            generator=self.generator,
            device=self.device,
            dtype=self.work,
        )

    def uniform(self, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        """Return numbers uniform in [0, 1) of the working precision."""
        return torch.rand(
            self.shape if shape is None else shape,
            generator=self.generator,
            device=self.device,
            dtype=self.work,
        )

    def integers(self, high: int, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        """Return int64 numbers uniform in [0, high)."""
        return torch.randint(
            high,
            self.shape if shape is None else shape,
            generator=self.generator,
            device=self.device,
        )

    def permutation(self, count: int) -> torch.Tensor:
        """Return a random permutation of 0..count-1, int64."""
        return torch.randperm(count, generator=self.generator, device=self.device)

    def constant(self, value: float) -> torch.Tensor:
        """Return a tensor of one value in the working precision."""
        return torch.full(self.shape, value, device=self.device, dtype=self.work)


FillFunction: TypeAlias = Callable[[Request], torch.Tensor]

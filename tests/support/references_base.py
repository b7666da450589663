"""One reference of a zoo: how people write it in torch, and its formula in numpy float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array: TypeAlias = npt.NDArray[Any]


class Draw:
    """Draws small inputs; floats in the style's dtype unless the method says otherwise."""

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Normal values in the style's dtype."""
        return self.wide(*shape, scale=scale).to(self.dtype)

    def wide(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Normal values in float32."""
        return torch.randn(*shape, generator=self.generator) * scale

    def positive(self, *shape: int) -> Tensor:
        """Values in [0.5, 1.5) in float32."""
        return torch.rand(*shape, generator=self.generator) + 0.5

    def ids(self, high: int, *shape: int) -> Tensor:
        """int64 values in [0, high)."""
        return torch.randint(0, high, shape, generator=self.generator)

    def mask(self, *shape: int) -> Tensor:
        """A bool mask, about two thirds true."""
        return torch.rand(*shape, generator=self.generator) < 0.66


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """`fn` as people write it, `inputs` for it, and `truth`: numpy float64 in and out."""

    name: str
    fn: Callable[..., object]
    inputs: Callable[[Draw], Sequence[Any]]
    truth: Callable[..., Any]
    rtol: float = 1e-10


def arrays(inputs: Sequence[Any]) -> list[Any]:
    """Return inputs as numpy: floats as float64, integers and scalars as they are."""
    return [
        value
        if not isinstance(value, Tensor)
        else value.double().numpy()
        if value.is_floating_point()
        else value.numpy()
        for value in inputs
    ]


def softmax(x: Array) -> Array:
    """Softmax over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def sigmoid(x: Array) -> Array:
    """Logistic function by the hyperbolic tangent."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def erf(x: Array) -> Array:
    """Error function, element by element from the C library."""
    import math

    return np.asarray(np.vectorize(math.erf, otypes=[float])(x))


def logsumexp(x: Array) -> Array:
    """log sum exp over the last axis."""
    top = x.max(-1, keepdims=True)
    return np.asarray(np.log(np.exp(x - top).sum(-1)) + top[..., 0])


def round_e4m3(x: Array) -> Array:
    """Round to float8 e4m3fn: three fraction bits, least exponent -6, largest value 448."""
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 1e-300))), -6)
    step = 2.0 ** (exponent - 3)
    return np.asarray(np.clip(np.round(x / step) * step, -448, 448))

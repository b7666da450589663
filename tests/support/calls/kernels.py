"""Kernels with the signatures that people have."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch


class Mode(enum.Enum):
    """How rows are combined."""

    MEAN = 1
    SUM = 2


@dataclass(frozen=True)
class Config:
    """Settings, one of which is a tensor."""

    eps: float
    scale: torch.Tensor | None = None
    name: str = "rms"


class Out(NamedTuple):
    """A result with a dict inside."""

    y: torch.Tensor
    stats: dict[str, torch.Tensor]


def keyword_only(x: torch.Tensor, *, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm with keyword-only arguments."""
    wide = x.float()
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


def configured(
    x: torch.Tensor,
    config: Config,
    mode: str = "mean",
    residual: torch.Tensor | None = None,
    kind: Mode = Mode.MEAN,
) -> torch.Tensor:
    """RMSNorm with a config object, a string, an enum and an optional tensor."""
    if kind is not Mode.MEAN or mode != "mean" or residual is not None:
        raise ValueError("not supported")
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.eps)
    return y if config.scale is None else y * config.scale


def unscaled(x: torch.Tensor, config: Config, mode: str = "mean", **rest: Any) -> torch.Tensor:
    """The same without its scale: wrong."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.eps)


def lists(xs: list[torch.Tensor], weights: tuple[Any, ...]) -> list[torch.Tensor]:
    """Products of ragged lists."""
    return [x * w for x, w in zip(xs, weights, strict=True)]


def nested(state: dict[str, Any]) -> Out:
    """Nested dicts in, a named tuple out."""
    mean = {"mean": state["a"].mean(-1), "sum": state["a"].sum()}
    return Out(state["a"] + state["more"]["b"], mean)


def into(x: torch.Tensor, out: torch.Tensor) -> None:
    """Writes its result into an argument."""
    out.copy_(x * 2)


def in_place(x: torch.Tensor) -> torch.Tensor:
    """Changes its input and returns it."""
    x.mul_(2)
    return x


class Double(torch.autograd.Function):
    """An autograd function."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return twice x."""
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        """Return twice the gradient."""
        return grad * 2


class Linear(torch.nn.Module):
    """A module with parameters, one of them in a submodule."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.proj = torch.nn.Linear(inputs, outputs)
        self.gain = torch.nn.Parameter(torch.rand(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scaled projection."""
        y: torch.Tensor = self.proj(x) * self.gain
        return y


def applied(x: torch.Tensor, layer: torch.nn.Module) -> torch.Tensor:
    """Apply a module that is an argument."""
    y: torch.Tensor = layer(x)
    return y


def into_wrongly(x: torch.Tensor, out: torch.Tensor) -> None:
    """Writes a wrong result into an argument."""
    out.copy_(x * 2.01)

"""What the kernels beside should compute."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.calls.kernels import Out


def keyword_only(x: torch.Tensor, *, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm."""
    wide = x.float()
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


def configured(
    x: torch.Tensor, config: Any, mode: str = "mean", residual: Any = None, kind: Any = None
) -> torch.Tensor:
    """RMSNorm with a scale."""
    y: torch.Tensor = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.eps) * config.scale
    return y


def lists(xs: list[torch.Tensor], weights: tuple[Any, ...]) -> list[torch.Tensor]:
    """Products."""
    return [x * w for x, w in zip(xs, weights, strict=True)]


def nested(state: dict[str, Any]) -> Out:
    """Sums and means."""
    mean = {"mean": state["a"].mean(-1), "sum": state["a"].sum()}
    return Out(state["a"] + state["more"]["b"], mean)


def into(x: torch.Tensor, out: torch.Tensor) -> None:
    """Twice x, into an argument."""
    torch.mul(x, 2, out=out)


def double(x: torch.Tensor) -> torch.Tensor:
    """Twice x."""
    return x * 2


def in_place(x: torch.Tensor) -> torch.Tensor:
    """Twice x, in place."""
    x *= 2
    return x


class Linear(torch.nn.Module):
    """The same parameters as the kernel's module."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.proj = torch.nn.Linear(inputs, outputs)
        self.gain = torch.nn.Parameter(torch.rand(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scaled projection."""
        product = torch.nn.functional.linear(x, self.proj.weight, self.proj.bias)
        return product * self.gain

import enum
from dataclasses import dataclass
from typing import NamedTuple

import torch


class Mode(enum.Enum):
    MEAN = 1
    SUM = 2


@dataclass(frozen=True)
class Config:
    eps: float
    scale: torch.Tensor | None = None
    name: str = "rms"


class Out(NamedTuple):
    y: torch.Tensor
    stats: dict


def kwonly(x, *, weight, eps):
    return (
        x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps) * weight.float()
    ).to(x.dtype)


def with_config(x, config, mode="mean", residual=None, kind=Mode.MEAN):
    assert kind is Mode.MEAN and mode == "mean" and residual is None
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.eps)
    if config.scale is not None:
        y = y * config.scale
    return y


def lists(xs, weights):
    return [x * w for x, w in zip(xs, weights)]


def nested(state):
    return Out(
        state["a"] + state["more"]["b"], {"mean": state["a"].mean(-1), "n": state["a"].sum()}
    )


def into(x, out):
    out.copy_(x * 2)


def in_place(x):
    x.mul_(2)
    return x


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Linear(torch.nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.proj = torch.nn.Linear(n, m)
        self.gain = torch.nn.Parameter(torch.rand(m))

    def forward(self, x):
        return self.proj(x) * self.gain

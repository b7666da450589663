"""The references beside, declared as problems: every signature that people have."""

from __future__ import annotations

from typing import Annotated, Any

import torch

from cuassay.formats.native.declaration import problem, scalar, tensor
from tests.support.calls.kernels import Config, Mode, Out
from tests.support.calls.references import Linear

ROWS = {"rows": (1, 512), "cols": (1, 512)}
SIZES = ({"rows": 6, "cols": 10},)
# Descriptions stand where a call has tensors.
CONFIG: Any = Config(1e-6, tensor("float32", "cols"))  # type: ignore[arg-type]
TUNED: Any = Config(scalar("float32", low=1e-6, high=1e-3), tensor("float32", "cols"))  # type: ignore[arg-type]
RAGGED: Any = [tensor("float32", "first", "cols"), tensor("float32", "second", "cols")]
WEIGHTS: Any = (tensor("float32", "cols"), 2.0)
OUT: Any = Out(
    tensor("float32", "rows", "cols"),  # type: ignore[arg-type]
    {"mean": tensor("float32", "rows"), "sum": tensor("float32")},  # type: ignore[dict-item]
)


@problem(axes=ROWS, workloads=({**SIZES[0], "eps": 1e-6},))
def keyword_only(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "cols")],
    *,
    weight: Annotated[torch.Tensor, tensor("bfloat16", "cols")],
    eps: Annotated[float, scalar("float32", low=1e-6, high=1e-3)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "cols", name="y")]:
    """RMSNorm with keyword-only arguments."""
    wide = x.float()
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


@problem(axes=ROWS, workloads=SIZES)
def configured(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "cols")],
    config: Annotated[Config, CONFIG],
    mode: str = "mean",
    residual: torch.Tensor | None = None,
    kind: Mode = Mode.MEAN,
) -> Annotated[torch.Tensor, tensor("float32", "rows", "cols")]:
    """RMSNorm with a config object, a string, None and an enum."""
    assert config.scale is not None
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.eps) * config.scale


@problem(axes=ROWS, workloads=({**SIZES[0], "config_eps": 1e-6},))
def tuned(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "cols")],
    config: Annotated[Config, TUNED],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "cols")]:
    """RMSNorm with a config object whose field varies."""
    assert config.scale is not None
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.eps) * config.scale


@problem(axes={"first": (1, 64), "second": (1, 64), "cols": (1, 64)},
         workloads=({"first": 3, "second": 5, "cols": 10},))  # fmt: skip
def lists(
    xs: Annotated[list[torch.Tensor], RAGGED],
    weights: Annotated[tuple[Any, ...], WEIGHTS],
) -> Annotated[list[torch.Tensor], RAGGED]:
    """Products of ragged lists."""
    return [x * w for x, w in zip(xs, weights, strict=True)]


@problem(axes=ROWS, workloads=SIZES)
def nested(
    state: Annotated[
        dict[str, Any],
        {
            "a": tensor("float32", "rows", "cols"),
            "more": {"b": tensor("float32", "rows", "cols")},
        },
    ],
) -> Annotated[Out, OUT]:
    """Nested dicts in, a named tuple out."""
    mean = {"mean": state["a"].mean(-1), "sum": state["a"].sum()}
    return Out(state["a"] + state["more"]["b"], mean)


@problem(axes=ROWS, workloads=SIZES)
def into(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "cols")],
    out: Annotated[torch.Tensor, tensor("float32", "rows", "cols", out=True)],
) -> None:
    """Twice x, into an argument."""
    torch.mul(x, 2, out=out)


@problem(axes=ROWS, workloads=SIZES)
def in_place(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "cols", updated=True)],
) -> None:
    """Twice x, in place."""
    x *= 2


@problem(axes=ROWS, workloads=SIZES)
def doubled(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "cols")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "cols")]:
    """Twice x: for an autograd function."""
    return x * 2


@problem(axes=ROWS, workloads=SIZES)
def linear(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "cols")],
    layer: Annotated[Linear, Linear(10, 4)],
) -> Annotated[torch.Tensor, tensor("float32", "rows", 4)]:
    """A module with parameters."""
    made: torch.Tensor = layer(x)
    return made

"""Problems of the variants."""

from typing import Annotated

import torch
from torch.nn import functional as F

from cuassay import problem, scalar, tensor
from cuassay.model.domain import Index, IntegerRange, Real

_R = {"rows": (1, 1_048_576), "cols": (1, 16_384)}
_W = [{"rows": 16, "cols": 96}, {"rows": 256, "cols": 1024}]
F32 = Annotated[torch.Tensor, tensor("float32", "rows", "cols")]
F32Y = Annotated[torch.Tensor, tensor("float32", "rows", "cols", name="y")]
B16 = Annotated[torch.Tensor, tensor("bfloat16", "rows", "cols")]
B16Y = Annotated[torch.Tensor, tensor("bfloat16", "rows", "cols", name="y")]
BW = Annotated[torch.Tensor, tensor("bfloat16", "cols")]
EPS = Annotated[float, scalar("float32", low=1e-7, high=1e-3, default=1e-6)]
FACTOR = Annotated[float, scalar("float32", low=-4.0, high=4.0, default=1.5)]


@problem(axes=_R, workloads=_W)
def shifted(x: F32, factor: FACTOR) -> F32Y:
    return torch.tanh(x) + factor


@problem(axes=_R, workloads=_W, reduction_axes=("cols",))
def softmax(x: F32) -> F32Y:
    return torch.softmax(x, -1)


@problem(axes=_R, workloads=_W, reduction_axes=("cols",))
def norm(x: B16, weight: BW, eps: EPS) -> B16Y:
    w = x.float()
    return (w * torch.rsqrt(w.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


@problem(axes=_R, workloads=_W, reduction_axes=("cols",))
def layernorm(x: B16, weight: BW, bias: BW, eps: EPS) -> B16Y:
    return F.layer_norm(x.float(), x.shape[-1:], weight.float(), bias.float(), eps).to(x.dtype)


@problem(axes=_R, workloads=_W)
def gated(x: B16, up: B16) -> B16Y:
    return (F.silu(x.float()) * up.float()).to(x.dtype)


@problem(axes=_R, workloads=_W, reduction_axes=("cols",))
def running(x: F32) -> F32Y:
    return x.cumsum(-1)


@problem(axes=_R, workloads=_W, reduction_axes=("rows",))
def column_sum(x: F32) -> Annotated[torch.Tensor, tensor("float32", "cols", name="y")]:
    return x.sum(0)


@problem(
    axes={"tokens": (1, 131_072), "vocab": (16, 131_072), "dim": (1, 4096)},
    workloads=[
        {"tokens": 64, "vocab": 1000, "dim": 64},
        {"tokens": 2048, "vocab": 50_000, "dim": 256},
    ],
)
def lookup(
    ids: Annotated[torch.Tensor, tensor("int64", "tokens", domain=Index(axis="vocab"))],
    table: Annotated[torch.Tensor, tensor("float32", "vocab", "dim")],
) -> Annotated[torch.Tensor, tensor("float32", "tokens", "dim", name="y")]:
    return table[ids] * 2.0


@problem(
    axes={"tokens": (1, 65_536), "half": (1, 128)},
    workloads=[{"tokens": 40, "half": 32}, {"tokens": 4096, "half": 64}],
)
def sinusoid(
    start: Annotated[
        torch.Tensor, tensor("int64", "tokens", domain=IntegerRange(low=0, high=65_535))
    ],
    like: Annotated[torch.Tensor, tensor("float32", "tokens", "half")],
) -> Annotated[torch.Tensor, tensor("float32", "tokens", "half", name="y")]:
    f = 10_000.0 ** (
        -torch.arange(like.shape[1], device=like.device, dtype=torch.float32) / like.shape[1]
    )
    return torch.sin(start.float()[:, None] * f) * like


@problem(
    axes={"rows": (1, 4096), "vocab": (16, 131_072)},
    workloads=[{"rows": 8, "vocab": 512}, {"rows": 64, "vocab": 32_000}],
)
def best(
    logits: Annotated[torch.Tensor, tensor("float32", "rows", "vocab")],
) -> tuple[
    Annotated[torch.Tensor, tensor("float32", "rows", 4, name="values")],
    Annotated[torch.Tensor, tensor("int64", "rows", 4, name="places")],
]:
    v, i = torch.topk(logits, 4, dim=-1)
    return v, i


@problem(
    axes={"m": (1, 8192), "n": (1, 8192), "k": (1, 16_384)},
    workloads=[{"m": 48, "n": 40, "k": 96}, {"m": 256, "n": 256, "k": 512}],
    reduction_axes=("k",),
)
def product(
    a: Annotated[torch.Tensor, tensor("bfloat16", "m", "k")],
    b: Annotated[torch.Tensor, tensor("bfloat16", "n", "k")],
) -> Annotated[torch.Tensor, tensor("float32", "m", "n", name="y")]:
    return a.float() @ b.float().T


@problem(
    axes={"m": (1, 8192), "n": (1, 8192), "k": (1, 16_384)},
    workloads=[{"m": 48, "n": 40, "k": 96}, {"m": 256, "n": 256, "k": 512}],
    reduction_axes=("k",),
)
def dense_gelu(
    a: Annotated[torch.Tensor, tensor("bfloat16", "m", "k")],
    b: Annotated[torch.Tensor, tensor("bfloat16", "n", "k")],
    bias: Annotated[torch.Tensor, tensor("bfloat16", "n")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "m", "n", name="y")]:
    return F.gelu(a.float() @ b.float().T + bias.float()).to(a.dtype)


@problem(
    axes={"tokens": (1, 65_536), "experts": (1, 8), "dim": (1, 4096)},
    workloads=[{"tokens": 40, "experts": 4, "dim": 64}, {"tokens": 512, "experts": 2, "dim": 512}],
)
def combine(
    parts: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "experts", "dim")],
    weights: Annotated[
        torch.Tensor, tensor("float32", "tokens", "experts", domain=Real(low=0.0, high=1.0))
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "dim", name="y")]:
    return (parts.float() * weights[..., None]).sum(1).to(parts.dtype)


@problem(
    axes={"heads": (1, 32), "queries": (1, 4096), "dim": (1, 128)},
    workloads=[{"heads": 2, "queries": 40, "dim": 32}, {"heads": 4, "queries": 128, "dim": 64}],
    reduction_axes=("queries",),
)
def sloped_attention(
    q: Annotated[
        torch.Tensor, tensor("float16", "heads", "queries", "dim", domain=Real(low=-8.0, high=8.0))
    ],
    k: Annotated[
        torch.Tensor, tensor("float16", "heads", "queries", "dim", domain=Real(low=-8.0, high=8.0))
    ],
    v: Annotated[torch.Tensor, tensor("float16", "heads", "queries", "dim")],
    slopes: Annotated[torch.Tensor, tensor("float32", "heads", domain=Real(low=0.0, high=1.0))],
) -> Annotated[torch.Tensor, tensor("float16", "heads", "queries", "dim", name="y")]:
    n = q.shape[1]
    at = torch.arange(n, device=q.device)
    far = (at[None, :] - at[:, None]).float()
    s = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5 + slopes[:, None, None] * far
    s = s.masked_fill(far > 0, float("-inf"))
    return (torch.softmax(s, -1) @ v.float()).to(q.dtype)


@problem(
    axes={"requests": (1, 64), "slots": 4, "pages": (4, 65_536)},
    workloads=[{"requests": 3, "pages": 32}, {"requests": 16, "pages": 256}],
)
def gather_pages(
    pool: Annotated[torch.Tensor, tensor("bfloat16", "pages", 16, 4096)],
    table: Annotated[
        torch.Tensor, tensor("int32", "requests", "slots", domain=Index(axis="pages"))
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "requests", "slots", 16, 4096, name="y")]:
    return pool[table.long()]


@problem(
    axes={"requests": (1, 64), "keys": 32, "dim": 16}, workloads=[{"requests": 4}, {"requests": 32}]
)
def masked_mean(
    values: Annotated[torch.Tensor, tensor("float32", "requests", "keys", "dim")],
    lengths: Annotated[
        torch.Tensor, tensor("int32", "requests", domain=IntegerRange(low=1, high=32))
    ],
) -> Annotated[torch.Tensor, tensor("float32", "requests", "dim", name="y")]:
    seen = torch.arange(32, device=values.device) < lengths[:, None]
    return values.masked_fill(~seen[..., None], 0.0).sum(1) / lengths[:, None]


class Scaled(torch.nn.Module):
    pass

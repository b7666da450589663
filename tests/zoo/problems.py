"""Problems that the zoo needs beside the catalogue: batches of indices, masks, odd references.

The second half are references that a careless verifier blames on the candidate: they mutate,
alias, draw at random, round in the middle, or come with inputs that belong together.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Annotated

import torch

from cuassay.catalog import registry
from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.model.digest import problem_digest
from cuassay.model.domain import Index, Lengths, Mask, Offsets, Opaque, Positive, Real, Structure
from cuassay.model.problem import VarAxis

_Rows = Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns")]
_Out = Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="y")]
_AXES = {"rows": (1, 65_536), "columns": (1, 65_536)}
_WORKLOADS = ({"rows": 64, "columns": 256}, {"rows": 4096, "columns": 4096})


@problem(
    axes={"batch": (1, 512), "tokens": (1, 65_536), "half": (1, 512), "positions": (1, 131_072)},
    workloads=(
        {"batch": 2, "tokens": 64, "half": 32, "positions": 128},
        {"batch": 4, "tokens": 2048, "half": 64, "positions": 4096},
    ),
)
def rotary(
    x: Annotated[torch.Tensor, tensor("bfloat16", "batch", "tokens", "2*half")],
    cos: Annotated[
        torch.Tensor, tensor("float32", "positions", "half", domain=Real(low=-1.0, high=1.0))
    ],
    sin: Annotated[
        torch.Tensor, tensor("float32", "positions", "half", domain=Real(low=-1.0, high=1.0))
    ],
    position_ids: Annotated[
        torch.Tensor, tensor("int64", "batch", "tokens", domain=Index(axis="positions"))
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", "tokens", "2*half", name="y")]:
    """Rotary position embedding (arXiv 2104.09864) with given tables and positions."""
    c, s = cos[position_ids], sin[position_ids]
    first, second = x.to(torch.float32).chunk(2, dim=-1)
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1).to(x.dtype)


@problem(axes=_AXES, workloads=_WORKLOADS)
def decayed_state_(
    state: Annotated[torch.Tensor, tensor("float32", "rows", "columns", updated=True)],
    x: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
    decay: Annotated[float, scalar("float32", low=0.0, high=1.0, default=0.5)],
) -> None:
    """state = decay * state + the mean of each row of x, in place."""
    state.mul_(decay).add_(x.mean(-1, keepdim=True))


@problem(axes=_AXES, workloads=_WORKLOADS)
def masked_softmax(
    scores: _Rows,
    mask: Annotated[torch.Tensor, tensor("bool", "rows", "columns", domain=Mask())],
    scale: Annotated[float, scalar("float32", low=0.05, high=4.0, default=1.0)],
) -> _Out:
    """Soft-max of scaled scores over the kept columns of each row."""
    scaled = (scores.to(torch.float32) * scale).masked_fill(~mask, float("-inf"))
    return torch.softmax(scaled, dim=-1).to(scores.dtype)


@problem(axes=_AXES, workloads=_WORKLOADS)
def probability_gap(
    logits: _Rows,
    targets: Annotated[torch.Tensor, tensor("int64", "rows", domain=Index(axis="columns"))],
) -> _Out:
    """Gradient of cross-entropy with respect to logits: softmax minus one at the target."""
    p = torch.softmax(logits.to(torch.float32), dim=-1)
    hot = torch.zeros_like(p).scatter_(1, targets.unsqueeze(1), 1.0)
    return (p - hot).to(logits.dtype)


@problem(axes=_AXES, workloads=_WORKLOADS)
def scaled_copy(
    x: _Rows, scale: Annotated[float, scalar("float32", low=0.25, high=4.0, default=1.0)]
) -> _Out:
    """A copy of x times scale."""
    return (x.to(torch.float32) * scale).to(x.dtype)


@problem(axes=_AXES, workloads=_WORKLOADS)
def limited_gradient(
    x: _Rows,
    upstream: _Rows,
    limit: Annotated[float, scalar("float32", low=0.25, high=8.0, default=0.7)],
) -> _Out:
    """The gradient of a clamp to the open range from -limit to limit."""
    return upstream * (x.to(torch.float32).abs() < limit)


@problem(
    axes={"rows": (1, 4096), "columns": (1, 65_536)}, workloads=({"rows": 128, "columns": 4000},)
)
def running_sum(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    """The sums of each row's first elements."""
    return x.cumsum(-1)


_Upper = Annotated[
    torch.Tensor, tensor("float32", "n", "n", domain=Real(structure=Structure.UPPER_TRIANGULAR))
]


@problem(axes={"n": (1, 4096)}, workloads=({"n": 64}, {"n": 256}))
def upper_triangular_product(
    a: _Upper, b: _Upper
) -> Annotated[torch.Tensor, tensor("float32", "n", "n", name="y")]:
    """The product of two upper triangular matrices."""
    return a @ b


@problem(
    axes={"rows": (1, 4096), "columns": (1, 4096)},
    workloads=({"rows": 64, "columns": 256}, {"rows": 256, "columns": 1024}),
)
def windowed_sum(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
    window: Annotated[int, scalar("int32", low=1, high=4096, default=16)],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    """Sums of each element and those before it within a window."""
    padded = torch.nn.functional.pad(x, (window - 1, 0))
    return padded.unfold(-1, window, 1).sum(-1)


@problem(
    axes={"rows": (1, 4096), "keys": (2, 4096), "width": (1, 512)},
    workloads=({"rows": 64, "keys": 128, "width": 64}, {"rows": 256, "keys": 1024, "width": 128}),
)
def keys_backward(
    scores: Annotated[torch.Tensor, tensor("float32", "rows", "keys")],
    upstream: Annotated[torch.Tensor, tensor("float32", "rows", "keys")],
    queries: Annotated[torch.Tensor, tensor("float32", "rows", "width")],
) -> tuple[
    Annotated[torch.Tensor, tensor("float32", "keys", "width", name="grad_keys")],
    Annotated[torch.Tensor, tensor("float32", "width", name="grad_bias")],
]:
    """Gradients of an attention's keys and of their bias: softmax makes the second one zero."""
    weights = torch.softmax(scores, dim=-1)
    grad = weights * (upstream - (weights * upstream).sum(dim=-1, keepdim=True))
    grad_keys = grad.t() @ queries
    return grad_keys, grad_keys.sum(dim=0)


@problem(axes=_AXES, workloads=_WORKLOADS)
def tanh_saved(
    x: _Rows,
) -> tuple[_Out, Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="saved")]]:
    """The hyperbolic tangent, and a copy of it for the backward pass."""
    y = torch.tanh(x.to(torch.float32)).to(x.dtype)
    return y, y.clone()


@problem(
    axes={"rows": (1, 65_536), "columns": (1, 4096)},
    workloads=({"rows": 10_007, "columns": 8}, {"rows": 10_007, "columns": 4096}),
)
def long_softmax(logits: _Rows) -> _Out:
    """Soft-max of more than ten thousand rows."""
    return torch.softmax(logits.to(torch.float32), dim=-1).to(logits.dtype)


@problem(axes={"rows": (1, 4096), "steps": (1, 192)}, workloads=({"rows": 32, "steps": 96},))
def decayed_sum(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "steps")],
    decay: Annotated[torch.Tensor, tensor("float32", "rows", domain=Real(low=0.5, high=0.99))],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "steps", name="y")]:
    """y[t] = decay y[t-1] + x[t], from zero, for each row."""
    state, ys = torch.zeros_like(decay), []
    for column in x.to(torch.float32).unbind(1):
        state = decay * state + column
        ys.append(state)
    return torch.stack(ys, dim=1).to(x.dtype)


@problem(
    axes={"rows": (1, 4096), "columns": (1, 4096), "width": (1, 512)},
    workloads=({"rows": 24, "columns": 160, "width": 16},),
)
def weighted_mean(
    scores: _Rows, values: Annotated[torch.Tensor, tensor("bfloat16", "columns", "width")]
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "width", name="y")]:
    """Means of values under soft-max weights: the core of attention."""
    weights = torch.softmax(scores.to(torch.float32), dim=-1)
    return (weights @ values.to(torch.float32)).to(scores.dtype)


@problem(
    axes={"rows": (1, 4096), "keys": (1, 128), "width": (1, 512)},
    workloads=({"rows": 64, "keys": 128, "width": 32},),
    reduction_axes=("keys",),
)
def weighted_values(
    weights: Annotated[torch.Tensor, tensor("bfloat16", "rows", "keys")],
    values: Annotated[torch.Tensor, tensor("bfloat16", "keys", "width")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "width", name="y")]:
    """Sums of values under given weights, of two blocks of 64 at most."""
    return (weights.to(torch.float32) @ values.to(torch.float32)).to(weights.dtype)


@problem(axes={"rows": (1, 4096), "columns": (1, 64)}, workloads=({"rows": 40, "columns": 3},))
def tiny_rows(x: _Rows) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", name="y")]:
    """Sums of three terms: groups too small for ratios of errors."""
    return x.to(torch.float32).sum(dim=-1).to(x.dtype)


@problem(axes=_AXES, workloads=_WORKLOADS)
def rounded_softcap(
    logits: _Rows, cap: Annotated[float, scalar("float32", low=5.0, high=100.0, default=30.0)]
) -> _Out:
    """Capped soft-max that rounds to the dtype after every step, less exact than a kernel."""
    return torch.softmax(cap * torch.tanh(logits / cap), dim=-1)


@problem(
    axes={"tokens": (1, 64), "hidden": (1, 4096), "vocab": 8},
    workloads=({"tokens": 32, "hidden": 32},),
    reduction_axes=("tokens",),
)
def racy_reference(
    grad_output: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "hidden")],
    input_ids: Annotated[torch.Tensor, tensor("int64", "tokens", domain=Index(axis="vocab"))],
) -> Annotated[torch.Tensor, tensor("bfloat16", "vocab", "hidden", name="grad_weight")]:
    """An embedding gradient by additions in bfloat16 in random order: two runs differ."""
    generator = torch.Generator(device="cpu").manual_seed(int.from_bytes(os.urandom(4), "little"))
    table = grad_output.new_zeros(8, grad_output.shape[1])
    for token in torch.randperm(len(input_ids), generator=generator).tolist():
        table[input_ids[token]] += grad_output[token]
    return table


def _bounded(name: str, **maxima: int) -> SimpleNamespace:
    """A catalogued operator with its first workload and shorter axes: cheap on a CPU."""
    whole = registry.get(name)
    axes = tuple(
        dataclasses.replace(axis, maximum=maxima[axis.name])
        if isinstance(axis, VarAxis) and axis.name in maxima
        else axis
        for axis in whole.axes
    )
    small = dataclasses.replace(
        whole,
        name=f"{name}_small",
        axes=axes,
        workloads=whole.workloads[:1],
        reduction_axes=(),
        growth_target={},
        digest="",
    )
    return SimpleNamespace(
        __cuassay_problem__=dataclasses.replace(small, digest=problem_digest(small))
    )


attention = _bounded("attention", queries=32, past=16)
attention_window_softcap = _bounded("attention_window_softcap", queries=32, past=16)
attention_varlen = _bounded("attention_varlen", total=96, sequences=8)


@problem(axes=_AXES, workloads=_WORKLOADS)
def adds_in_place(x: _Rows, residual: _Rows) -> _Out:
    """x += residual: the reference mutates its input and returns it."""
    return x.add_(residual)


def consistent_inputs(
    axes_and_scalars: Mapping[str, int], device: torch.device
) -> dict[str, torch.Tensor]:
    """Return x and the rstd that belongs to it."""
    rows, columns = axes_and_scalars["rows"], axes_and_scalars["columns"]
    x = torch.randn(rows, columns, device=device).to(torch.bfloat16)
    grad = torch.randn(rows, columns, device=device).to(torch.bfloat16)
    rstd = torch.rsqrt(x.to(torch.float32).square().mean(dim=-1) + 1e-6)
    return {"grad_output": grad, "x": x, "rstd": rstd}


_FAMILY = Opaque(why="x and rstd belong together: only the generator makes a consistent pair")


@problem(axes=_AXES, workloads=_WORKLOADS, generator=consistent_inputs)
def saved_rstd(
    grad_output: _Rows,
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", domain=_FAMILY)],
    rstd: Annotated[torch.Tensor, tensor("float32", "rows", domain=_FAMILY)],
) -> _Out:
    """Input gradient of an RMSNorm without weight, from the saved rstd."""
    grad, scale = grad_output.to(torch.float32), rstd.unsqueeze(-1)
    normed = x.to(torch.float32) * scale
    along = (grad * normed).mean(dim=-1, keepdim=True)
    return ((grad - normed * along) * scale).to(x.dtype)


@problem(
    axes={"rows": (1, 4096), "columns": (1, 4096), "slots": "2*rows"},
    workloads=({"rows": 48, "columns": 64},),
)
def scatter_rows(
    x: _Rows,
    slots_of: Annotated[
        torch.Tensor, tensor("int64", "rows", domain=Index(axis="slots", unique=True))
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "slots", "columns", name="y")]:
    """Rows written to slots that never repeat: which of two writers wins is undefined."""
    table = x.new_zeros(2 * x.shape[0], x.shape[1])
    table[slots_of] = x
    return table


@problem(
    axes={"segments": (1, 512), "columns": (1, 4096), "total": (1, 65_536), "ends": "segments+1"},
    workloads=({"segments": 6, "columns": 32, "total": 200},),
    reduction_axes=("total",),
)
def segment_sum(
    x: Annotated[torch.Tensor, tensor("bfloat16", "total", "columns")],
    offsets: Annotated[torch.Tensor, tensor("int64", "ends", domain=Offsets(axis="total"))],
) -> Annotated[torch.Tensor, tensor("bfloat16", "segments", "columns", name="y")]:
    """Sums of consecutive rows between sorted offsets, empty segments included."""
    lengths = offsets.diff()
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=x.device), lengths)
    total = torch.zeros(len(lengths), x.shape[1], dtype=torch.float32, device=x.device)
    return total.index_add_(0, owner, x.to(torch.float32)).to(x.dtype)


@problem(
    axes={"tokens": (1, 65_536), "width": (1, 8192), "hidden": (1, 65_536)},
    workloads=(
        {"tokens": 48, "width": 128, "hidden": 352},
        {"tokens": 2048, "width": 4096, "hidden": 14_336},
    ),
)
def mlp_backward(
    grad: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "width")],
    x: Annotated[torch.Tensor, tensor("bfloat16", "tokens", "width")],
    gate: Annotated[torch.Tensor, tensor("bfloat16", "hidden", "width")],
    up: Annotated[torch.Tensor, tensor("bfloat16", "hidden", "width")],
    down: Annotated[torch.Tensor, tensor("bfloat16", "width", "hidden")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "tokens", "width", name="grad_x")]:
    """Gradient of down(silu(gate x) * up x) with respect to x, in float32 throughout."""
    wide, g, u = x.float(), gate.float(), up.float()
    a, b, back = wide @ g.t(), wide @ u.t(), grad.float() @ down.float()
    sigmoid = torch.sigmoid(a)
    grad_up = back * a * sigmoid
    grad_gate = back * b * sigmoid * (1.0 + a * (1.0 - sigmoid))
    return (grad_gate @ g + grad_up @ u).to(x.dtype)


@problem(
    axes={"rows": (1, 65_536), "inner": (1, 65_536), "columns": (1, 65_536)},
    workloads=(
        {"rows": 48, "inner": 256, "columns": 96},
        {"rows": 4096, "inner": 4096, "columns": 4096},
    ),
    precision="tf32",
)
def product_in_tf32(
    a: Annotated[torch.Tensor, tensor("float32", "rows", "inner")],
    b: Annotated[torch.Tensor, tensor("float32", "inner", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    """A float32 matrix product whose operands may be rounded to TF32."""
    return a @ b


@problem(
    axes={"rows": (1, 65_536), "hidden": (1, 65_536)},
    workloads=({"rows": 64, "hidden": 352}, {"rows": 4096, "hidden": 14_336}),
)
def swiglu_eager(
    gate: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    up: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")]:
    """SwiGLU as eager models write it: silu(gate) is rounded to bfloat16 before the product."""
    return torch.nn.functional.silu(gate) * up


@problem(axes={"half": 64}, workloads=({"theta": 10_000.0}, {"theta": 1_000_000.0}))
def inverse_frequencies(
    theta: Annotated[float, scalar("float32", low=1e3, high=1e7, default=1e4)],
) -> Annotated[torch.Tensor, tensor("float32", "half", name="y")]:
    """Inverse frequencies of rotary embeddings: one number in, no tensor (arXiv 2104.09864)."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    places = torch.arange(64, dtype=torch.float32, device=device)
    return 1.0 / torch.pow(float(theta), places / 64)


@problem(
    axes={"rows": (1, 4096), "tokens": (1, 8192), "width": (1, 1024)},
    workloads=({"rows": 8, "tokens": 40, "width": 16},),
)
def pooled_rows(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "tokens", "width", stale=True)],
    lengths: Annotated[torch.Tensor, tensor("int32", "rows", domain=Lengths(axis="tokens"))],
    mask: Annotated[
        torch.Tensor,
        tensor("bool", "rows", "tokens", domain=Mask(kind="padding", lengths="lengths")),
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "width", name="y")]:
    """The mean of each row's first `lengths` tokens, which `mask` keeps; zeros for none."""
    total = x.to(torch.float32).masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
    return (total / lengths.clamp(min=1).unsqueeze(-1)).to(x.dtype)


@problem(
    axes={"rows": (1, 4096), "keys": {32, 64, 128}},
    workloads=({"rows": 40, "keys": 64},),
)
def masked_scores(
    scores: Annotated[torch.Tensor, tensor("float32", "rows", "keys", domain=Real(also=("-inf",)))],
    gain: Annotated[
        torch.Tensor, tensor("float32", "ceil(rows / 16)", domain=Real(numbers_of="bfloat16"))
    ],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "keys", name="y")]:
    """Soft-max of scores that are -inf where a mask hides them, times a gain for 16 rows each."""
    rows = gain.repeat_interleave(16)[: scores.shape[0]]
    return torch.softmax(scores, dim=-1) * rows.unsqueeze(-1)


@problem(
    axes={"groups": (1, 512), "rows": (1, 65_536), "width": (1, 1024)},
    workloads=({"groups": 6, "rows": 60, "width": 16},),
)
def padded_group_sums(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "width")],
    offsets: Annotated[
        torch.Tensor, tensor("int32", "groups+1", domain=Offsets(axis="rows", short=True))
    ],
) -> Annotated[torch.Tensor, tensor("bfloat16", "groups", "width", name="y")]:
    """Sums of the rows between offsets; rows beyond the last one are padding."""
    places = torch.arange(len(x), device=x.device)
    owner = torch.searchsorted(offsets[1:].long().contiguous(), places, right=True)
    total = torch.zeros(len(offsets), x.shape[1], dtype=torch.float32, device=x.device)
    return total.index_add(0, owner, x.to(torch.float32))[:-1].to(x.dtype)


@problem(
    axes={"batch": (1, 64), "keys": (1, 4096), "head": {64}},
    workloads=({"batch": 4, "keys": 128, "head": 64},),
)
def one_query(
    q: Annotated[torch.Tensor, tensor("float32", "batch", "head")],
    k: Annotated[torch.Tensor, tensor("float32", "batch", "keys", "head")],
    v: Annotated[torch.Tensor, tensor("float32", "batch", "keys", "head")],
) -> Annotated[torch.Tensor, tensor("float32", "batch", "head", name="y")]:
    """Attention of one query a sequence."""
    scores = (k * q.unsqueeze(1)).sum(-1)
    return (torch.softmax(scores, -1).unsqueeze(-1) * v).sum(1)


@problem(axes={"rows": (1, 4096), "cols": (1, 4096)}, workloads=({"rows": 16, "cols": 1000},))
def row_maximum(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "cols")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", name="y")]:
    """The largest number of each row."""
    return x.amax(-1)


@problem(
    axes={"rows": (1, 4096), "hidden": (16, 8192, 16)},
    workloads=({"rows": 16, "hidden": 256}, {"rows": 4, "hidden": 1024}),
)
def added_norm_codes(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    residual: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "hidden")],
) -> Annotated[
    tuple[torch.Tensor, torch.Tensor],
    (tensor("float8_e4m3fn", "rows", "hidden", name="q"), tensor("float32", "rows", name="scale")),
]:
    """A residual is added, the sum normalized, and each row stored as 8-bit floats."""
    total = x.float() + residual.float()
    size = total.pow(2).mean(-1, keepdim=True)
    y = total * torch.rsqrt(size + 1e-6) * weight.float()
    scale = y.abs().amax(-1).clamp(min=1e-10) / 448.0
    return (y / scale.unsqueeze(-1)).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), scale


_Channel = Annotated[torch.Tensor, tensor("bfloat16", "channels")]


@problem(
    axes={"batch": (1, 64), "channels": (1, 2048), "height": (1, 256), "width": (1, 256)},
    workloads=({"batch": 2, "channels": 64, "height": 14, "width": 14},),
)
def frozen_batchnorm(
    x: Annotated[torch.Tensor, tensor("bfloat16", "batch", "channels", "height", "width")],
    weight: _Channel,
    bias: _Channel,
    mean: _Channel,
    variance: Annotated[
        torch.Tensor, tensor("bfloat16", "channels", domain=Positive(low=0.01, high=100.0))
    ],
    eps: Annotated[float, scalar("float32", low=1e-7, high=1e-3, default=1e-5)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "batch", "channels", "height", "width", name="y")]:
    """Batch norm with the statistics of training, as detectors freeze it."""
    w, b, m, v = (t.to(torch.float32)[:, None, None] for t in (weight, bias, mean, variance))
    scale = w * torch.rsqrt(v + eps)
    return (x.to(torch.float32) * scale + (b - m * scale)).to(x.dtype)


_Tokens = Annotated[torch.Tensor, tensor("float32", "batch", "tokens", "width")]


@problem(
    axes={"batch": (1, 512), "tokens": (1, 65_536), "width": (1, 256)},
    workloads=({"batch": 2, "tokens": 80, "width": 16}, {"batch": 1, "tokens": 150, "width": 24}),
)
def decayed_recurrence(
    q: _Tokens,
    k: _Tokens,
    v: _Tokens,
    log_decay: Annotated[
        torch.Tensor, tensor("float32", "batch", "tokens", domain=Real(low=-1.0, high=-1e-3))
    ],
) -> Annotated[torch.Tensor, tensor("float32", "batch", "tokens", "width", name="output")]:
    """o[t] = q[t] S[t] with S[t] = exp(log_decay[t]) S[t-1] + k[t]^T v[t], token by token."""
    state = q.new_zeros(q.shape[0], q.shape[2], v.shape[2])
    outputs = []
    for token in range(q.shape[1]):
        state = state * log_decay[:, token].exp()[:, None, None]
        state = state + k[:, token, :, None] * v[:, token, None, :]
        outputs.append((q[:, token, :, None] * state).sum(dim=1))
    return torch.stack(outputs, dim=1)


@problem(
    axes={"rows": (1, 65_536), "hidden": (1, 16_384)},
    workloads=({"rows": 64, "hidden": 48}, {"rows": 200, "hidden": 128}),
    reduction_axes=("hidden",),
)
def route_hidden(
    x: Annotated[
        torch.Tensor, tensor("float16", "rows", "hidden", domain=Real(low=-8.0, high=8.0))
    ],
    router: Annotated[torch.Tensor, tensor("float16", 16, "hidden", domain=Real(low=-1, high=1))],
) -> tuple[
    Annotated[torch.Tensor, tensor("float32", "rows", 4, name="weights")],
    Annotated[torch.Tensor, tensor("int64", "rows", 4, name="experts")],
]:
    """The best 4 of 16 experts by a layer over hidden states, weights that add up to 1."""
    logits = torch.nn.functional.linear(x, router)
    weights, chosen = torch.topk(torch.softmax(logits.float(), dim=-1), 4, dim=-1)
    return weights / weights.sum(dim=-1, keepdim=True), chosen

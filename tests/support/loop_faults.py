"""Planted faults of the loops' newer sites, each with its correct twin, as plain functions.

They run in the process of the test or the benchmark; `FAULTS` names site, fault and twin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Run = Callable[..., Any]
TOP = 2


def route_in_bf16(logits: torch.Tensor) -> Any:
    """A router whose soft-max is taken in bfloat16: experts that are close become equal."""
    weights, chosen = torch.topk(torch.softmax(logits.bfloat16(), -1), TOP, -1)
    wide = weights.float()
    return wide / wide.sum(-1, keepdim=True), chosen


def route_second_ignored(logits: torch.Tensor) -> Any:
    """A router that takes the third expert instead of the second of every 64th token."""
    weights, chosen = torch.topk(torch.softmax(logits, -1), TOP + 1, -1)
    late = (torch.arange(len(logits), device=logits.device) % 64 == 63).unsqueeze(1)
    kept, wrong = weights[:, :TOP], weights[:, [0, 2]]
    picked = torch.where(late, wrong, kept)
    who = torch.where(late, chosen[:, [0, 2]], chosen[:, :TOP])
    return picked / picked.sum(-1, keepdim=True), who


def route_third(logits: torch.Tensor) -> Any:
    """A router that takes the first and the third of the best experts."""
    weights, chosen = torch.topk(torch.softmax(logits, -1), TOP + 1, -1)
    picked = weights[:, [0, 2]]
    return picked / picked.sum(-1, keepdim=True), chosen[:, [0, 2]]


def route_by_logits(logits: torch.Tensor) -> Any:
    """Correct: chosen by logits, last of equals, weights by a soft-max over the chosen."""
    flipped = logits.flip(-1)
    best = torch.topk(flipped, TOP, -1)
    return torch.softmax(best.values, -1), logits.shape[1] - 1 - best.indices


def scatter_last_wins(rows: torch.Tensor, token_of: torch.Tensor) -> torch.Tensor:
    """A scatter that stores instead of adding: of a token's two rows the later one stays."""
    out = torch.zeros(len(rows) // TOP, rows.shape[1], dtype=rows.dtype, device=rows.device)
    for choice in token_of.argsort(stable=True).reshape(-1, TOP).unbind(1):
        out[token_of[choice]] = rows[choice]
    return out


def scatter_bf16(rows: torch.Tensor, token_of: torch.Tensor) -> torch.Tensor:
    """Rows scaled down to halves in float8 before they are added."""
    out = torch.zeros(len(rows) // TOP, rows.shape[1], dtype=torch.float32, device=rows.device)
    scale = rows.float().abs().amax().clamp_min(1e-30) / 448.0
    coarse = (rows.float() / scale).to(torch.float8_e4m3fn).float() * scale
    return out.index_add_(0, token_of, coarse).to(rows.dtype)


def scatter_sorted(rows: torch.Tensor, token_of: torch.Tensor) -> torch.Tensor:
    """Correct: a token's rows found by sorting, added in float32."""
    order = token_of.argsort(stable=True)
    return rows[order].float().reshape(-1, TOP, rows.shape[1]).sum(1).to(rows.dtype)


def gather_capacity(x: torch.Tensor, experts_of: torch.Tensor) -> Any:
    """A gather that drops tokens of an expert beyond one and a half of its fair share."""
    rows, source, counts = gather_counted(x, experts_of)
    first = (counts.cumsum(0) - counts)[experts_of.flatten()[source]]
    place = torch.arange(len(source), device=x.device) - first
    return rows * (place < 3 * len(source) // 32).unsqueeze(1), source, counts


def gather_counted(x: torch.Tensor, experts_of: torch.Tensor) -> Any:
    """Correct: a stable sort by expert, counts by comparison."""
    flat = experts_of.flatten()
    source = torch.sort(flat, stable=True).indices
    counts = (flat.unsqueeze(1) == torch.arange(16, device=x.device)).sum(0)
    return x[source // TOP], source, counts


# site -> faults, correct twin
MOE: tuple[tuple[str, Run, Run], ...] = (
    ("moe_route", route_in_bf16, route_by_logits),
    ("moe_route", route_second_ignored, route_by_logits),
    ("moe_scatter", scatter_last_wins, scatter_sorted),
    ("moe_scatter", scatter_bf16, scatter_sorted),
    ("moe_gather", gather_capacity, gather_counted),
)


def _adamw(
    *,
    corrected: bool = True,
    low_second: bool = False,
    decays: int = 1,
    eps_inside: bool = False,
) -> Run:
    def run(
        param: torch.Tensor,
        grad: torch.Tensor,
        exp_avg: torch.Tensor,
        exp_avg_sq: torch.Tensor,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
        step: int,
    ) -> Any:
        wide = grad.float()
        first = exp_avg + (1.0 - beta1) * (wide - exp_avg)
        second = beta2 * exp_avg_sq + (1.0 - beta2) * wide.square()
        if low_second:
            second = second.bfloat16().float()
        scales = (1.0 - beta1**step, 1.0 - beta2**step) if corrected else (1.0, 1.0)
        inside = second / scales[1]
        root = torch.sqrt(inside + eps) if eps_inside else torch.sqrt(inside) + eps
        kept = param * (1.0 - lr * weight_decay) ** decays
        return kept - lr * (first / scales[0]) / root, first, second

    return run


def _sgd(*, dampened: bool = False, low_buffer: bool = False, decays: int = 1) -> Run:
    def run(
        param: torch.Tensor,
        grad: torch.Tensor,
        momentum_buffer: torch.Tensor,
        lr: float,
        momentum: float,
        weight_decay: float,
        nesterov: bool,
    ) -> Any:
        total = torch.add(grad.float(), param, alpha=decays * weight_decay)
        share = 1.0 - momentum if dampened else 1.0
        buffer = torch.add(share * total, momentum_buffer, alpha=momentum)
        if low_buffer:
            buffer = buffer.bfloat16().float()
        direction = torch.add(total, buffer, alpha=momentum) if nesterov else buffer
        return torch.add(param, direction, alpha=-lr), buffer

    return run


def _muon(*, steps: int = 5, stretched: bool = True, low: torch.dtype | None = None) -> Run:
    def run(
        param: torch.Tensor,
        grad: torch.Tensor,
        momentum_buffer: torch.Tensor,
        lr: float,
        momentum: float,
    ) -> Any:
        rows, columns = grad.shape
        buffer = torch.lerp(grad.float(), momentum_buffer, momentum)
        direction = torch.lerp(grad.float(), buffer, momentum)
        x = direction.T if rows > columns else direction
        x = (x / (x.norm() + 1e-7)).to(low or grad.dtype)
        for _ in range(steps):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        made = (x.T if rows > columns else x).float()
        stretch = max(1.0, rows / columns) ** 0.5 if stretched else 1.0
        return param - (lr * stretch) * made, buffer

    return run


def _named(run: Run, name: str) -> Run:
    run.__name__ = name
    return run


# site -> fault, correct twin
OPTIMIZERS: tuple[tuple[str, Run, Run], ...] = (
    (
        "adamw_step",
        _named(_adamw(corrected=False), "no_bias_correction"),
        _named(_adamw(), "adamw"),
    ),
    (
        "adamw_step",
        _named(_adamw(low_second=True), "second_moment_bf16"),
        _named(_adamw(), "adamw"),
    ),
    ("adamw_step", _named(_adamw(decays=2), "decay_twice"), _named(_adamw(), "adamw")),
    ("adamw_step", _named(_adamw(eps_inside=True), "eps_inside_root"), _named(_adamw(), "adamw")),
    ("sgd_momentum_step", _named(_sgd(dampened=True), "dampened"), _named(_sgd(), "sgd_momentum")),
    (
        "sgd_momentum_step",
        _named(_sgd(low_buffer=True), "buffer_bf16"),
        _named(_sgd(), "sgd_momentum"),
    ),
    ("sgd_momentum_step", _named(_sgd(decays=2), "decay_twice"), _named(_sgd(), "sgd_momentum")),
    ("muon_step", _named(_muon(steps=4), "four_iterations"), _named(_muon(), "muon")),
    (
        "muon_step",
        _named(_muon(stretched=False), "not_stretched"),
        _named(_muon(low=torch.float32), "muon_in_float32"),
    ),
)


def _swiglu_backward(offsets: int | None) -> Run:
    """Gradients of silu(gate) * up; with `offsets` elements beyond so many read the first ones."""

    def run(grad_output: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Any:
        if offsets is not None and up.numel() > offsets:
            flat = torch.arange(up.numel(), device=up.device)
            up = up.flatten()[torch.where(flat < offsets, flat, flat - offsets)].reshape(up.shape)
        grad, wide, other = (t.float() for t in (grad_output, gate, up))
        share = torch.sigmoid(wide)
        slope = share * (1.0 + wide * (1.0 - share))
        return (grad * other * slope).to(gate.dtype), (grad * wide * share).to(gate.dtype)

    return run


def _norm_backward(tokens: int | None) -> Run:
    """Gradients of RMSNorm; with `tokens` rows beyond so many are missing from the gain's."""

    def run(
        grad_output: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
    ) -> Any:
        grad, wide, scale = grad_output.float(), x.float(), rstd.float().unsqueeze(-1)
        normed = wide * scale
        inner = grad * weight.float()
        along = (inner * normed).mean(-1, keepdim=True)
        grad_x = (inner - normed * along) * scale
        return grad_x.to(x.dtype), (grad * normed)[:tokens].sum(0).to(weight.dtype)

    return run


# site -> fault beyond the batches of the micro model's runs, correct twin
DUPLICATES: tuple[tuple[str, Run, Run], ...] = (
    (
        "swiglu_backward",
        _named(_swiglu_backward(24 * 64 * 32), "offset_wraps"),
        _named(_swiglu_backward(None), "swiglu_backward"),
    ),
    (
        "rmsnorm_backward",
        _named(_norm_backward(30 * 64), "late_rows_lost"),
        _named(_norm_backward(None), "norm_backward"),
    ),
)


def _head(*, rounded: bool = False, narrow: bool = True) -> Run:
    """Return the gradients of head and loss; `narrow` keeps logits in the working dtype."""

    def run(
        states: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, factor: torch.Tensor
    ) -> Any:
        low, wide = states.dtype, weight.float()
        logits = states.float() @ wide.T
        p = torch.softmax(logits.to(low).float() if narrow else logits, -1)
        p = p.to(low).float() if rounded else p
        p[torch.arange(len(p), device=p.device), targets.clamp_min(0)] -= 1.0
        grad = (p * torch.where(targets < 0, 0.0, factor).unsqueeze(-1)).to(low).float()
        return (grad @ wide).to(low), (grad.T @ states.float()).to(low)

    return run


# the fused head: fault, correct twin; logits in the working dtype, then in float32
HEAD: tuple[tuple[str, Run, Run], ...] = (
    (
        "linear_cross_entropy_backward",
        _named(_head(rounded=True), "head_rounded"),
        _named(_head(), "head"),
    ),
    (
        "linear_cross_entropy_backward",
        _named(_head(rounded=True, narrow=False), "head_rounded_float32_logits"),
        _named(_head(narrow=False), "head_float32_logits"),
    ),
)

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

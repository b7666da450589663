"""Gradients compared at the same state: per parameter, and per hot row of the embedding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from cuassay_loops.model.transformer import Transformer
from cuassay_loops.sequential import LEAN, Group, Pair

Gradients = dict[str, torch.Tensor]
_HOT_ROWS = 16
TABLE = "embed"
# A float32 sum of n terms in any order is off by a few units of rounding times sqrt(n).
_FLOAT32_ORDER = 4.0 * 2.0**-24


def groups(model: Transformer, rows: Sequence[int]) -> dict[str, Group]:
    """Return the groups that a run watches: every parameter, and these rows of the embedding."""
    preset = model.preset
    floor = _FLOAT32_ORDER * math.sqrt(preset.batch * preset.length)
    lean = floor if model.ops.low is torch.float32 else LEAN
    names = [name for name, _ in model.named_parameters()]
    names += [row_name(row) for row in rows]
    return {name: Group(name=name, floor=floor, lean=lean) for name in names}


def hot_rows(weights: torch.Tensor) -> tuple[int, ...]:
    """Return the ids of the rows to watch: the most frequent ones."""
    order = torch.topk(weights, min(_HOT_ROWS, len(weights))).indices.tolist()
    return tuple(int(row) for row in order if weights[row] > 0)


def row_name(row: int) -> str:
    """Return the group of one row of the embedding."""
    return f"{TABLE}[{row}]"


def row_of(group: str) -> int | None:
    """Return the row of a group, None for a whole parameter."""
    return int(group[len(TABLE) + 1 : -1]) if group.startswith(f"{TABLE}[") else None


def measure_pairs(
    trusted: Mapping[str, torch.Tensor],
    noise: Mapping[str, torch.Tensor],
    candidate: Mapping[str, torch.Tensor],
    *,
    rows: Sequence[int] = (),
) -> dict[str, Pair]:
    """Return the pair of every group whose trusted gradient is finite and not zero."""
    names = list(trusted)
    sums = [
        _row_sums(*(grads[name].reshape(1, -1) for grads in (trusted, noise, candidate)))[0]
        for name in names
    ]
    if rows and TABLE in trusted:
        index = torch.tensor(rows, device=trusted[TABLE].device)
        found = [grads[TABLE].index_select(0, index) for grads in (trusted, noise, candidate)]
        names += [row_name(row) for row in rows]
        sums += list(_row_sums(*found))
    values = torch.stack(sums).tolist()  # one copy to the host
    pairs = {name: _pair(*each) for name, each in zip(names, values, strict=True)}
    return {name: pair for name, pair in pairs.items() if pair is not None}


def _row_sums(trusted: torch.Tensor, noise: torch.Tensor, candidate: torch.Tensor) -> torch.Tensor:
    """Return, a row: |t|^2, <n - t, t>, |n - t|^2, <c - t, t>, |c - t|^2, |c|^2, float64."""
    t, n, c = (part.detach().double() for part in (trusted, noise, candidate))
    dn, dc = n - t, c - t
    columns = ((t * t), (dn * t), (dn * dn), (dc * t), (dc * dc), (c * c))
    return torch.stack([column.sum(dim=-1) for column in columns], dim=-1)


def _pair(tt: float, nt: float, nn: float, ct: float, cc: float, size: float) -> Pair | None:
    if not math.isfinite(tt) or tt == 0.0 or not math.isfinite(nn):
        return None
    if not math.isfinite(cc):
        return Pair(
            ratio=math.nan,
            cosine=math.nan,
            bias=math.nan,
            deviation=math.inf,
            noise_bias=nt / tt,
            noise_deviation=math.sqrt(nn / tt),
            finite=False,
        )
    return Pair(
        ratio=math.sqrt(size / tt),
        cosine=(tt + ct) / math.sqrt(tt * size) if size else 0.0,
        bias=ct / tt,
        deviation=math.sqrt(cc / tt),
        noise_bias=nt / tt,
        noise_deviation=math.sqrt(nn / tt),
    )

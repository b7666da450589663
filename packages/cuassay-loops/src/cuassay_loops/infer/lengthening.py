"""Error of paged attention over context length, the kernel's beside the reference's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cuassay.inputs.seeds import derive
from cuassay_loops.infer.paged import PAGE
from cuassay_loops.kernels import Kernel, Value
from cuassay_loops.model.operators import Operators
from cuassay_loops.results import LengthPoint
from cuassay_loops.sequential import BAND

_DRAWS = 6  # all of them beyond the band: one chance in 20**6 for a correct kernel
_BATCH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Longer:
    """What long contexts told: points, slopes of log error over log length, findings."""

    points: tuple[LengthPoint, ...]
    slope: float | None
    slope_trusted: float | None
    wrong: list[str]
    told: str


def measure_lengths(
    kernel: Kernel, ops: Operators, *, kv_heads: int, group: int, dim: int, longest: int, seed: int
) -> Longer:
    """Call the kernel on contexts from 64 tokens to `longest`. Raises KernelFault."""
    lengths = [64]
    while lengths[-1] * 2 <= longest:
        lengths.append(lengths[-1] * 2)
    points: list[LengthPoint] = []
    beyond: list[int] = []
    for length in lengths:
        errors = []
        for draw in range(_DRAWS):
            values = _case(
                length,
                ops,
                kv_heads=kv_heads,
                group=group,
                dim=dim,
                seed=derive(seed, length, draw),
            )
            # Relative errors against unrounded arithmetic: kernel's and reference's
            (truth,) = ops.wide("attention_decode", values)
            (written,) = ops.as_written("attention_decode", values)
            (own,) = kernel(values)
            size = float(truth.double().norm())
            found = [float((t.double() - truth.double()).norm()) / size for t in (own, written)]
            errors.append((found[0] if math.isfinite(found[0]) else math.inf, found[1]))
        mean = [sum(column) / _DRAWS for column in zip(*errors, strict=True)]
        points.append(LengthPoint(length=length, error=mean[0], trusted=mean[1]))
        if all(mine > BAND * theirs or not math.isfinite(mine) for mine, theirs in errors):
            beyond.append(length)
    mine = _slope([(p.length, p.error) for p in points])
    theirs = _slope([(p.length, p.trusted) for p in points])
    wrong = []
    if beyond:
        worst = max(points, key=lambda p: p.error / p.trusted if p.trusted else 0.0)
        wrong.append(
            f"attention over {beyond[0]} tokens and more errs beyond the band: {worst.error:.2g} "
            f"at {worst.length} tokens where the reference has {worst.trusted:.2g}"
        )
    told = f"{lengths[0]} to {lengths[-1]} tokens: error {points[-1].error:.2g} at the longest, "
    told += f"reference {points[-1].trusted:.2g}"
    return Longer(points=tuple(points), slope=mine, slope_trusted=theirs, wrong=wrong, told=told)


def _case(
    length: int, ops: Operators, *, kv_heads: int, group: int, dim: int, seed: int
) -> list[Value]:
    generator = torch.Generator().manual_seed(seed % 2**63)
    slots = -(-length // PAGE)
    pages = _BATCH * slots

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(ops.low).to(ops.device)

    table = torch.randperm(pages, generator=generator).reshape(_BATCH, slots)
    # Positions differ between sequences and fall on both ends of a page.
    positions = torch.tensor([length - 1, max(0, length - PAGE), length // 2])
    return [
        drawn(_BATCH, kv_heads * group, dim),
        drawn(pages, PAGE, kv_heads, dim),
        drawn(pages, PAGE, kv_heads, dim),
        table.to(torch.int32).to(ops.device),
        positions.to(torch.int32).to(ops.device),
        1.0 / math.sqrt(dim),
    ]


def _slope(points: Sequence[tuple[int, float]]) -> float | None:
    kept = [(math.log(x), math.log(y)) for x, y in points if y > 0 and math.isfinite(y)]
    if len(kept) < 2:
        return None
    mean_x = sum(x for x, _ in kept) / len(kept)
    mean_y = sum(y for _, y in kept) / len(kept)
    spread = sum((x - mean_x) ** 2 for x, _ in kept)
    return sum((x - mean_x) * (y - mean_y) for x, y in kept) / spread

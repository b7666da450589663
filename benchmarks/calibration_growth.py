"""Growth over the reduction length, and projections accumulated over seeds."""

from __future__ import annotations

import torch
from calibration_arithmetic import plain_sum, split_sum, tiled_low_sum, tree_sum
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.outcome import GrowthPoint
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.growth import fit, judge_growth
from cuassay.oracle.seeds import SeedAccumulator
from cuassay.oracle.truth.make import make_truth

LENGTHS = (256, 1024, 4096, 16384)
TARGET = 1_000_000
SPEC = TensorSpec(name="y", dtype=DType.BFLOAT16, shape=("rows",), domain=Real())
SUMS = {
    "float32": (True, plain_sum),
    "split": (True, split_sum),
    "tree": (True, tree_sum),
    "float64": (True, lambda x: x.double().sum(-1, keepdim=True).float()),
    "bf16 running": (False, tiled_low_sum(1, torch.bfloat16)),
    "bf16 tile 32": (False, tiled_low_sum(32, torch.bfloat16)),
    "bf16 tile 128": (False, tiled_low_sum(128, torch.bfloat16)),
    "bf16 pairwise": (False, lambda x: tree_sum(x, torch.bfloat16)),
}


def reference(x: Tensor) -> Tensor:
    return x.float().sum(-1).to(torch.bfloat16)


def _fill(kind: str, length: int, seed: int, device: str) -> Tensor:
    torch.manual_seed(seed)
    offset = 1.0 if kind == "same sign" else 0.0
    return (torch.randn(256, length) + offset).to(torch.bfloat16).to(device)


def growth_study(device: str) -> list[dict[str, object]]:
    """Return exponents, ratios and verdicts of every way to sum, zero-mean and same-sign."""
    rows: list[dict[str, object]] = []
    for kind in ("zero mean", "same sign"):
        for seed in range(2):
            cases = {n: _fill(kind, n, seed * 100 + n, device) for n in LENGTHS}
            truths = {
                n: make_truth(reference, [x], [SPEC], seed=seed).outputs[0]
                for n, x in cases.items()
            }
            for name, (honest, total) in SUMS.items():
                points = []
                for n, x in cases.items():
                    result = total(x.float()).squeeze(-1).to(torch.bfloat16)
                    found = compare(result, truths[n])
                    points.append(
                        GrowthPoint(
                            length=n,
                            error=found.relative_error,
                            trusted=found.trusted_relative_error,
                        )
                    )
                growth = fit(points, axis="n", target=TARGET, output="y")
                verdict = judge_growth(growth)
                assert verdict is not None
                rows.append(
                    {
                        "sum": name,
                        "honest": honest,
                        "fill": kind,
                        "exponent": round(growth.exponent, 3),
                        "trusted_exponent": round(growth.trusted_exponent, 3),
                        "ratio_at_longest": round(points[-1].error / points[-1].trusted, 3),
                        "projected": growth.projected,
                        "share": round(verdict.share, 3),
                        "fails": verdict.share > 1,
                    }
                )
    return rows


def seeds_study(device: str) -> list[dict[str, object]]:
    """Return accumulated projections over 32 seeds of honest sums and slightly biased ones."""
    variants = {
        "float32": lambda x: x.float().sum(-1),
        "tree": lambda x: tree_sum(x.float()).squeeze(-1),
        "gain 0.1 %": lambda x: x.double().sum(-1) * 1.001,
        "truncating cast": lambda x: _truncated(x.float().sum(-1)),
    }
    found = {name: SeedAccumulator() for name in variants}
    single = dict.fromkeys(variants, 0.0)
    for seed in range(32):
        x = _fill("same sign", 512, seed, device)
        truth = make_truth(reference, [x], [SPEC], seed=seed).outputs[0]
        for name, total in variants.items():
            comparison = compare(total(x).to(torch.bfloat16), truth)
            found[name].add(comparison)
            single[name] = max(single[name], comparison.share)
    return [
        {
            "variant": name,
            "P": round(accumulator.result().value, 2),
            "limit": accumulator.result().limit,
            "largest_share_of_one_seed": round(single[name], 3),
        }
        for name, accumulator in found.items()
    ]


def _truncated(x: Tensor) -> Tensor:
    return (x.contiguous().view(torch.int32) & ~0xFFFF).view(torch.float32)

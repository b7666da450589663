"""From which trusted error on does a case decide nothing? Data for ILL_CONDITIONED.

    python benchmarks/calibration_conditions.py [--seeds N]

Outputs that cancel more and more (differences of sums and of products, softmax backward,
variance of near-constant rows) are judged against a whole output twice as large, half as large
and zero. The threshold must lie below the least trusted error (norm over norm of truth) at
which one of these passes. Results: benchmarks/results/calibration-conditions-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from calibrate import environment, spec_of, wide
from torch import Tensor

from cuassay.oracle.compare.outputs import measure
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.outputs import ILL_CONDITIONED

ROWS, COLUMNS = 32, 256
Kernel = Callable[..., Tensor]
EXPONENTS = range(-2, 13)


def low_softmax_backward(y: Tensor, g: Tensor) -> Tensor:
    p = g * y
    return p - y * p.sum(-1, keepdim=True)


def softmax_backward(y: Tensor, g: Tensor) -> Tensor:
    p, q = y.float(), g.float()
    return (p * (q - (p * q).sum(-1, keepdim=True))).to(y.dtype)


def low_sums(a: Tensor, b: Tensor) -> Tensor:
    return a.sum(-1) - b.sum(-1)


def sums(a: Tensor, b: Tensor) -> Tensor:
    return (a.float() - b.float()).sum(-1).to(a.dtype)


def low_variance(x: Tensor) -> Tensor:
    return ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)


def variance(x: Tensor) -> Tensor:
    return x.float().var(-1, correction=0).to(x.dtype)


def one_pass(x: Tensor) -> Tensor:
    y = x.float()
    return (y.square().mean(-1) - y.mean(-1).square()).clamp_min(0.0).to(x.dtype)


def low_products(a: Tensor, b: Tensor) -> Tensor:
    return a @ b - a.flip(-1) @ b


def products(a: Tensor, b: Tensor) -> Tensor:
    x, y = a.float(), b.float()
    return ((x - x.flip(-1)) @ y).to(a.dtype)


def _cases() -> Iterator[tuple[str, tuple[Kernel, Kernel], tuple[Tensor, ...]]]:
    """Yield (name, (reference, honest twin), inputs); what cancels grows step by step."""
    for exponent in EXPONENTS:
        rest = 2.0**-exponent
        noise = torch.randn(ROWS, COLUMNS) * rest
        y = torch.softmax(torch.randn(ROWS, COLUMNS), -1)
        g = torch.randn(ROWS, 1) + noise
        yield "softmax backward", (low_softmax_backward, softmax_backward), (y, g)
        a = torch.randn(ROWS, COLUMNS) + 1
        yield "difference of sums", (low_sums, sums), (a, a.flip(-1) + noise / 16)
        level = torch.randn(ROWS, 1).abs() + 1
        yield "variance", (low_variance, variance), (level + noise,)
        yield "one-pass variance", (one_pass, variance), (level + noise / 64,)
        w = torch.randn(ROWS, COLUMNS)
        even = (w + w.flip(-1)) / 2 + noise
        yield "difference of products", (low_products, products), (even, torch.randn(COLUMNS, 48))


def study(seeds: int) -> list[dict[str, object]]:
    """Return one row a case: trusted error over truth and the share of each answer."""
    rows: list[dict[str, object]] = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        for name, (reference, twin), drawn in _cases():
            for dtype in (torch.bfloat16, torch.float32):
                inputs = wide(drawn, dtype)
                shown = reference(*inputs)
                truth = make_truth(reference, inputs, [spec_of(shown)], seed=seed).outputs[0]
                whole = truth.yardsticks[0]
                signal = float(whole.signal[0])
                if not signal:
                    continue
                trusted = math.sqrt(float(whole.energy[0]) / signal) * truth.unit
                answers = {
                    "reference": shown,
                    "twin": twin(*inputs),
                    "twice": (truth.value * 2).to(dtype),
                    "half": (truth.value / 2).to(dtype),
                    "zero": torch.zeros_like(shown),
                }
                shares = {key: round(measure(y, truth).share, 3) for key, y in answers.items()}
                rows.append({"trusted": trusted, "case": f"{name} / {dtype}", **shares})
    return sorted(rows, key=lambda row: float(str(row["trusted"])))


def least_missed(rows: list[dict[str, object]], answer: str) -> float:
    """Return the least trusted error at which a wrong answer passes."""
    return min(
        (float(str(r["trusted"])) for r in rows if float(str(r[answer])) <= 1), default=math.inf
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    rows = study(options.seeds)
    honest = [r for r in rows if max(float(str(r["reference"])), float(str(r["twin"]))) > 1]
    document = {
        "environment": environment("cpu"),
        "threshold": ILL_CONDITIONED,
        "cases": len(rows),
        "honest_alarms": honest,
        "least_trusted_error_missed": {
            answer: least_missed(rows, answer) for answer in ("twice", "half", "zero")
        },
        "rows": [r for r in rows if 0.01 < float(str(r["trusted"])) < 10],
    }
    out = Path(__file__).parent / "results" / "calibration-conditions-cpu.json"
    out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()

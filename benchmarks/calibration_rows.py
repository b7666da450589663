"""Calibration of a row's scale where one column has most of the noise: attention in float16.

Queries and keys in their domain, values with one channel a hundred times larger, two draws as for
the outputs of production shapes. Honest is a kernel that rounds unnormalised probabilities to the
working dtype, as flash, memory-efficient and cuDNN attention do; faults keep probabilities, scores
or the soft-max's sum in too few bits. Each is judged with and without
`trust_scale._even_rows`. Results: benchmarks/results/calibration-rows-cpu.json.
"""

from __future__ import annotations

import argparse
import math
from unittest import mock

import torch
from common import save
from torch import Tensor

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth import scale as trust_scale
from cuassay.oracle.truth.make import make_truth

QUERIES, PAST, DIM, HEADS = 2048, 128, 128, 2
LIMIT = 30.0  # of queries and keys, in the catalogue
FAULTS = ("bfloat16 probabilities", "float16 scores", "float16 sum")


def outliers(shape: tuple[int, ...], limit: float, generator: torch.Generator) -> Tensor:
    """Return normal numbers of scale 2, one channel 100 times larger, uniform beyond the limit."""
    x = torch.randn(*shape, generator=generator, dtype=torch.float64) * 2.0
    x[..., int(torch.randint(0, shape[-1], (1,), generator=generator))] *= 100.0
    beyond = x.abs() > limit
    count = int(beyond.sum())
    x[beyond] = (torch.rand(count, generator=generator, dtype=torch.float64) * 2 - 1) * limit
    return x.half()


def answers(q: Tensor, k: Tensor, v: Tensor, scale: float) -> dict[str, Tensor]:
    """Return the honest answer and the faulty ones."""
    heads = q.shape[1]
    keys, values = (t.float().repeat_interleave(heads, 1) for t in (k, v))
    scores = q.float() @ keys.transpose(-1, -2) * scale
    places = torch.arange(k.shape[2])
    hidden = places > torch.arange(q.shape[2])[:, None] + (k.shape[2] - q.shape[2])
    scores = scores.masked_fill(hidden, -math.inf)

    def weights(of: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.exp(of - of.amax(-1, keepdim=True))
        return p, p.sum(-1, keepdim=True)

    def attend(p: Tensor, total: Tensor) -> Tensor:
        return ((p @ values) / total).half()

    p, total = weights(scores)
    coarse, coarse_total = weights(scores.half().float())
    return {
        "honest": attend(p.half().float(), total),
        "bfloat16 probabilities": attend(p.bfloat16().float(), total),
        "float16 scores": attend(coarse, coarse_total),
        "float16 sum": attend(p.half().float(), total.half().float()),
    }


def judged(seed: int) -> dict[str, dict[str, float]]:
    """Return the share of the budget of each answer, with the rule and without."""
    generator = torch.Generator().manual_seed(seed)
    keys = (1, 1, QUERIES + PAST, DIM)
    q, k = (outliers(s, LIMIT, generator) for s in ((1, HEADS, QUERIES, DIM), keys))
    v, scale = outliers(keys, math.inf, generator), 0.02 + 0.02 * (seed % 4)
    problem = registry.get("attention", dtype="float16")
    reference, given = load_reference(problem).call, answers(q, k, v, scale)

    def shares() -> dict[str, float]:
        truth = make_truth(reference, [q, k, v, scale], problem.outputs, seed=seed, draws=2)
        return {one: compare(y, truth.outputs[0]).share for one, y in given.items()}

    with_rule = shares()
    with mock.patch.object(trust_scale, "_even_rows", lambda matrix, rows, columns: rows):
        return {"with": with_rule, "without": shares()}


def main() -> None:
    """Judge every seed, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = [judged(seed) for seed in range(parser.parse_args().seeds)]
    summary: dict[str, object] = {}
    for rule in ("with", "without"):
        shares = {one: sorted(row[rule][one] for row in seeds) for one in seeds[0][rule]}
        caught = {one: sum(share > 1 for share in shares[one]) for one in FAULTS}
        summary[rule] = {"honest shares": shares["honest"], "caught": caught, "of": len(seeds)}
        print(rule, "honest up to", round(shares["honest"][-1], 3), "caught", caught)
    print(f"results: {save('calibration-rows', summary)}")


if __name__ == "__main__":
    main()

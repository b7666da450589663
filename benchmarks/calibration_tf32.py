"""Calibration of the family `tf32`: operands of products rounded, and cut off as tensor cores do.

Matrix products and a chain of two, float32. Honest are operands that are rounded to TF32 before,
and ones whose low 13 bits are cut off: tensor cores read no more of a register, and Triton's
`tl.dot` gives them float32 as it is. Faults round operands to bfloat16, or cut them off there.
Each is judged with and without draws that cut (`Noise.cut`).
Results: benchmarks/results/calibration-tf32-cpu.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from unittest import mock

import torch
from common import save
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth import random_errors
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of

SIZES = ((64, 16, 64), (64, 128, 96), (64, 1024, 64), (32, 4096, 32))


def _bits(x: Tensor, added: int, dropped: int) -> Tensor:
    return ((x.contiguous().view(torch.int32) + added) & -(1 << dropped)).view(torch.float32)


OPERANDS: dict[str, Callable[[Tensor], Tensor]] = {
    "TF32 rounded": lambda x: _bits(x, 1 << 12, 13),
    "TF32 cut": lambda x: _bits(x, 0, 13),
    "bfloat16 rounded": lambda x: x.bfloat16().float(),
    "bfloat16 cut": lambda x: _bits(x, 0, 16),
}


def products(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two matrices."""
    return a @ b


def chain(a: Tensor, b: Tensor) -> Tensor:
    """Return a product whose operand is the soft-max of a product."""
    return torch.softmax(a @ b, -1) @ b.T


def judged(seed: int) -> dict[str, dict[str, float]]:
    """Return the share of the budget of each way, with the rule and without, by case."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, dict[str, float]] = {}
    for rows, inner, columns in SIZES:
        a = torch.randn(rows, inner, generator=generator)
        b = torch.randn(inner, columns, generator=generator)
        for fill, (x, y) in {"normal": (a, b), "same sign": (a.abs(), b.abs())}.items():
            for reference in (products, chain):
                found |= _shares(f"{reference.__name__} {inner} {fill}", reference, x, y, seed)
    return found


def _shares(
    case: str, reference: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, seed: int
) -> dict[str, dict[str, float]]:
    def kernel(way: Callable[[Tensor], Tensor]) -> Tensor:
        if reference is products:
            return way(x) @ way(y)
        return way(torch.softmax(way(x) @ way(y), -1)) @ way(y.T.contiguous())

    shape = tuple(map(str, reference(x, y).shape))
    spec = TensorSpec(name="made", dtype=DType.FLOAT32, shape=shape, domain=Real())
    family = family_of(Precision.TF32, DType.BFLOAT16)

    def shares() -> dict[str, float]:
        truth = make_truth(reference, [x, y], [spec], seed=seed, family=family)
        return {
            name: compare(kernel(way), truth.outputs[0]).share for name, way in OPERANDS.items()
        }

    with_rule = shares()
    with mock.patch.object(random_errors.Noise, "cut", lambda self, values, grid: values):
        return {f"{case} with": with_rule, f"{case} without": shares()}


def main() -> None:
    """Judge every seed, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = [judged(seed) for seed in range(parser.parse_args().seeds)]
    summary: dict[str, object] = {"seeds": len(seeds)}
    for case in seeds[0]:
        ways = {
            name: [round(pick(row[case][name] for row in seeds), 3) for pick in (min, max)]
            for name in OPERANDS
        }
        summary[case] = ways
        print(
            f"{case:32s}",
            "  ".join(f"{name} {low:.2f}-{high:.2f}" for name, (low, high) in ways.items()),
        )
    print(f"results: {save('calibration-tf32', summary)}")


if __name__ == "__main__":
    main()

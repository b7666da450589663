"""Calibration of the family `tf32`: operands of products rounded, and cut off as tensor cores do.

Matrix products and a chain of two, float32. Honest are operands that are rounded to TF32 before,
and ones whose low 13 bits are cut off: tensor cores read no more of a register, and Triton's
`tl.dot` gives them float32 as it is. Faults round operands to bfloat16, or cut them off there.
Each is judged with and without draws that cut (`Noise.cut`).

Then gated linear attention in chunks, bfloat16, judged by `mixed`: its operands cut off, or some of
them, the results of other products stored in bfloat16. Wrong is a gain of 1 %. With and without the
program that cuts (`truth/programs.py`).
Results: benchmarks/results/calibration-tf32-cpu.json.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import torch
from common import save
from torch import Tensor

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth import random_errors
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.programs import ProgramHook

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


CHUNK = 16
# (batch, heads, tokens, key, value)
CHUNKED = ((6, 5, 5, 3, 9), (1, 8, 256, 16, 16), (2, 8, 128, 32, 32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """How a kernel reads the operands of its three products, and stores what comes of them."""

    scores: Callable[[Tensor], Tensor] = OPERANDS["TF32 cut"]
    state: Callable[[Tensor], Tensor] = OPERANDS["TF32 cut"]
    kept: Callable[[Tensor], Tensor] = OPERANDS["TF32 cut"]
    products: Callable[[Tensor], Tensor] = torch.clone
    gain: float = 1.0

    def run(self, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, state: Tensor) -> list[Tensor]:
        """Return the output and the state after the last token."""
        outputs = []
        parts = (part.split(CHUNK, 2) for part in (q.float(), k.float(), v.float(), decay))
        for queries, keys, values, steps in zip(*parts, strict=True):
            reach, last = steps.cumsum(-1), steps.sum(-1, keepdim=True)
            between = reach.unsqueeze(-1) - reach.unsqueeze(-2)
            later = torch.ones(between.shape[-2:], dtype=torch.bool).triu(1)
            scores = queries @ keys.mT * between.masked_fill(later, -math.inf).exp()
            old = self.products(queries @ self.state(state))
            new = self.products(self.scores(scores) @ values)
            outputs.append(self.gain * (new + reach.exp().unsqueeze(-1) * old))
            kept = self.kept(keys * (last - reach).exp().unsqueeze(-1))
            state = last.exp().unsqueeze(-1) * state + kept.mT @ values
        return [torch.cat(outputs, 2).to(q.dtype), state]


_BF16 = OPERANDS["bfloat16 rounded"]
KERNELS = {
    "all cut": Chunks(),
    "scores and state cut": Chunks(kept=torch.clone),
    "scores cut, products stored": Chunks(state=torch.clone, products=_BF16),
    "scores stored, state cut": Chunks(scores=_BF16),
    "all cut, products stored": Chunks(products=_BF16),
    "gain of 1 % (wrong)": Chunks(gain=1.01),
}


def chunked(seed: int) -> dict[str, dict[str, float]]:
    """Return the share of `mixed` of each kernel, with the program that cuts and without."""
    definition = registry.get("gated_linear_attention")
    call = load_reference(definition).call
    family = family_of(Precision.MIXED, DType.BFLOAT16)
    generator = torch.Generator().manual_seed(seed)
    found = {}

    def shares(inputs: list[Tensor]) -> dict[str, float]:
        truth = make_truth(call, inputs, definition.outputs, seed=seed, family=family)
        return {
            name: max(
                compare(one, output).share
                for one, output in zip(kernel.run(*inputs), truth.outputs, strict=True)
            )
            for name, kernel in KERNELS.items()
        }

    for batch, heads, tokens, key, value in CHUNKED:
        for fill in ("normal", "same sign", "outliers"):

            def drawn(*shape: int, fill: str = fill) -> Tensor:
                plain = torch.randn(*shape, generator=generator)
                loud = torch.rand(*shape, generator=generator) < 0.02
                if fill == "outliers":
                    return torch.where(loud, 30.0 * plain, plain)
                return plain.abs() if fill == "same sign" else plain

            sizes = (batch, heads, tokens)
            decay = -4.0 * torch.rand(*sizes, generator=generator) - 1e-3
            inputs = [drawn(*sizes, width).bfloat16() for width in (key, key, value)]
            inputs += [decay, drawn(batch, heads, key, value)]
            case = f"chunks of {tokens} tokens, {key} x {value}, {fill}"
            found[f"{case} with"] = shares(inputs)
            with mock.patch.object(ProgramHook, "multiplies_wide", False):
                found[f"{case} without"] = shares(inputs)
    return found


def main() -> None:
    """Judge every seed, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = [judged(seed) | chunked(seed) for seed in range(parser.parse_args().seeds)]
    summary: dict[str, object] = {"seeds": len(seeds)}
    for case in seeds[0]:
        ways = {
            name: [round(pick(row[case][name] for row in seeds), 3) for pick in (min, max)]
            for name in seeds[0][case]
        }
        summary[case] = ways
        print(
            f"{case:32s}",
            "  ".join(f"{name} {low:.2f}-{high:.2f}" for name, (low, high) in ways.items()),
        )
    print(f"results: {save('calibration-tf32', summary)}")


if __name__ == "__main__":
    main()

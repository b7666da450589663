"""The machine's tensor cores beside microsoft/MMA-Sim: shapes and types, bit by bit.

MMA-Sim is a model of what hardware does, which its authors checked on each architecture. Its code
runs unchanged, on Python floats instead of tensors of one element each (suites_tensors.py), and
the first product of each instruction on tensors too. A case is one element of D. Factors are drawn
from three kinds of data in turn: normal numbers, numbers of widely different exponents, and any
finite codes, subnormal ones too.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from suites_tensors import on_floats, wrapped

from ptxsan.numerics.dot import SumRule, group_rule, instruction_rule
from ptxsan.numerics.formats import BY_NAME
from ptxsan.runtime.exchange import double_product
from ptxsan.runtime.matrix import product

ARCHITECTURES = {"Turing": 75, "Ampere": 80, "Ada Lovelace": 89, "Hopper": 90, "RTX Blackwell": 120}
GROUPS = tuple(
    f"m64n8k{depth}.{result}.{first}.{second}"
    for depth, result, first, second in (
        (16, "f32", "f16", "f16"),
        (16, "f16", "f16", "f16"),
        (16, "f32", "bf16", "bf16"),
        (8, "f32", "tf32", "tf32"),
        (32, "f32", "e4m3", "e4m3"),
        (32, "f32", "e5m2", "e4m3"),
        (32, "f32", "e5m2", "e5m2"),
        (32, "f16", "e4m3", "e5m2"),
    )
)
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "e4m3": 8, "e5m2": 8, "f64": 64}
_TORCH = {
    "f16": "float16",
    "bf16": "bfloat16",
    "tf32": "float32",
    "f32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "f64": "float64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One instruction: cases, how many of them are equal, the first that is not, why none."""

    name: str
    cases: int = 0
    equal: int = 0
    first: str = ""
    left_out: str = ""
    seconds: float = 0.0


def compare(folder: Path, cases: int, only: Sequence[str]) -> Iterator[Compared]:
    """Yield a comparison for each instruction that MMA-Sim has; `folder` holds its `mmasim`."""
    sys.path.insert(0, str(folder))
    from mmasim.isa.nv_ptx.nv_mma import arch_mma_qualifiers
    from mmasim.simulator import nv_ptx

    for name, architecture in ARCHITECTURES.items():
        for qualifier in arch_mma_qualifiers[name]:
            title = f"mma {name} {qualifier}"
            if all(word in title for word in only):
                yield _compared(title, nv_ptx.mma(name, qualifier), architecture, cases, False)
    for qualifier in GROUPS:
        title = f"wgmma Hopper {qualifier}"
        if all(word in title for word in only):
            yield _compared(title, nv_ptx.wgmma("Hopper", qualifier), 90, cases, True)


def _compared(title: str, model: Any, architecture: int, cases: int, group: bool) -> Compared:
    parts = title.split(" ")[-1].split(".")
    result, first, second = parts[1:4]
    if "e2m1" in parts:
        return Compared(name=title, left_out="e2m1 factors are not modelled")
    if (model.m, model.n, model.k) == (8, 8, 4) and first == "f16":
        return Compared(name=title, left_out="Volta's shape is not modelled")
    if not group and len(parts) > 4 and parts[4] != result:
        return Compared(name=title, left_out="C of another type than D is not modelled")
    size = _BITS[first] // 8
    rule = None
    if first != "f64":
        depth = model.k
        rule = group_rule(90, size) if group else instruction_rule(architecture, size, depth)
    generator = np.random.default_rng(zlib.crc32(title.encode()))
    started, done, equal, shown = time.perf_counter(), 0, 0, ""
    while done < cases:
        a = codes(generator, (model.m, model.k), first)
        b = codes(generator, (model.k, model.n), second)
        c = codes(generator, (model.m, model.n), result)
        given = as_tensor(a, first), as_tensor(b, second), as_tensor(c, result)
        with on_floats() as made:
            wanted = as_codes(made(model(*map(wrapped, given))), result)
        if not done and not np.array_equal(wanted, as_codes(model(*given), result)):
            raise AssertionError(f"{title}: MMA-Sim differs from itself without tensors")
        found = multiplied(a, b, c, (first, second, result), rule)
        same = wanted == found
        if first == "f64":  # a NaN's bits are PTX's business, not that of the sum
            same |= np.isnan(wanted.view(np.float64)) & np.isnan(found.view(np.float64))
        if not same.all() and not shown:
            row, column = np.argwhere(~same)[0]
            shown = f"{found[row, column]:#x} here, {wanted[row, column]:#x} there"
        done, equal = done + same.size, equal + int(same.sum())
    return Compared(
        name=title, cases=done, equal=equal, first=shown,
        seconds=round(time.perf_counter() - started, 1),
    )  # fmt: skip


def multiplied(
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    c: NDArray[np.int64],
    types: tuple[str, str, str],
    rule: SumRule | None,
) -> NDArray[np.int64]:
    """Return the codes [M, N] of A B + C as the machine's instructions compute them."""
    if rule is None:  # f64
        total = c.view(np.float64).copy()
        double_product(a.view(np.float64), np.ascontiguousarray(b.T).view(np.float64), total)
        return total.view(np.int64)
    kinds = tuple(BY_NAME[name].index for name in types)
    (rows, depth), panels = a.shape, b.shape[1] // 8
    result = c.reshape(rows, panels, 8).copy()
    columns = np.ascontiguousarray(b.reshape(depth, panels, 8).transpose(1, 0, 2))
    values = np.empty(a.shape), np.empty(columns.shape)
    product(a, columns, result, kinds, (rule.block, rule.fraction_bits), rule.halves, values)
    return result.reshape(rows, 8 * panels)


def codes(generator: np.random.Generator, shape: tuple[int, int], name: str) -> NDArray[np.int64]:
    """Return finite random codes of a format."""
    import torch

    kind = generator.integers(0, 3)
    if kind == 2:
        made = generator.integers(0, (1 << _BITS[name]) - 1, shape, np.uint64, endpoint=True)
        made = made.view(np.int64)
        bad = ~np.isfinite(as_tensor(made, name).double().numpy())
        made[bad] = 0
        return made
    spread = generator.integers(-8, 9, shape) if kind == 1 else np.zeros(shape, np.int64)
    values = generator.standard_normal(shape) * 2.0**spread
    tensor = torch.from_numpy(np.clip(values, -400, 400)).to(getattr(torch, _TORCH[name]))
    return as_codes(tensor, name)


def as_tensor(made: NDArray[np.int64], name: str) -> Any:
    """Return codes as a tensor of the type that MMA-Sim takes."""
    import torch

    unsigned = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[_BITS[name]]
    signed = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}[_BITS[name]]
    return torch.from_numpy(made.astype(unsigned).view(signed)).view(getattr(torch, _TORCH[name]))


def as_codes(tensor: Any, name: str) -> NDArray[np.int64]:
    """Return the codes of a tensor."""
    import torch

    signed = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[_BITS[name]]
    made: NDArray[np.int64] = tensor.contiguous().view(signed).numpy().astype(np.int64)
    return made if _BITS[name] == 64 else made & ((1 << _BITS[name]) - 1)

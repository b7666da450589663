"""The machine's tensor cores beside microsoft/MMA-Sim: shapes and types, bit by bit.

MMA-Sim is a model of what hardware does, which its authors checked on each architecture. A case is
one element of D. Factors are drawn from three kinds of data in turn: normal numbers, numbers of
widely different exponents, and any finite codes, subnormal ones too.
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

from ptxsan.numerics.dot import group_rule, in_two_halves, instruction_rule
from ptxsan.numerics.formats import BY_NAME
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
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "e4m3": 8, "e5m2": 8}
_TORCH = {
    "f16": "float16",
    "bf16": "bfloat16",
    "tf32": "float32",
    "f32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
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
    if "f64" in parts:
        return Compared(
            name=title, left_out="f64: fused multiply-adds, compared with a GPU instead"
        )
    if "e2m1" in parts:
        return Compared(name=title, left_out="e2m1 factors are not modelled")
    if (model.m, model.n, model.k) == (8, 8, 4):
        return Compared(name=title, left_out="Volta's shape is not modelled")
    if not group and len(parts) > 4 and parts[4] != result:
        return Compared(name=title, left_out="C of another type than D is not modelled")
    size = _BITS[first] // 8
    rule = (
        group_rule(architecture, size) if group else instruction_rule(architecture, size, model.k)
    )
    if size == 1 and in_two_halves(rule) and architecture != 90:
        return Compared(name=title, left_out="8-bit factors with K of 16 are not modelled there")
    generator = np.random.default_rng(zlib.crc32(title.encode()))
    started, done, equal, shown = time.perf_counter(), 0, 0, ""
    while done < cases:
        a = codes(generator, (model.m, model.k), first)
        b = codes(generator, (model.k, model.n), second)
        c = codes(generator, (model.m, model.n), result)
        wanted = as_codes(
            model(as_tensor(a, first), as_tensor(b, second), as_tensor(c, result)), result
        )
        found = multiplied(a, b, c, (first, second, result), rule)
        same = wanted == found
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
    rule: tuple[int, int],
) -> NDArray[np.int64]:
    """Return the codes [M, N] of A B + C as the machine's instructions compute them."""
    kinds = tuple(BY_NAME[name].index for name in types)
    (rows, depth), panels = a.shape, b.shape[1] // 8
    result = np.ascontiguousarray(c.reshape(rows, panels, 8))
    columns = np.ascontiguousarray(b.reshape(depth, panels, 8).transpose(1, 0, 2))
    product(a, columns, result, kinds, rule, (np.empty(a.shape), np.empty(columns.shape)))
    return result.reshape(rows, 8 * panels)


def codes(generator: np.random.Generator, shape: tuple[int, int], name: str) -> NDArray[np.int64]:
    """Return finite random codes of a format."""
    import torch

    kind = generator.integers(0, 3)
    if kind == 2:
        made = generator.integers(0, 1 << _BITS[name], shape, np.uint64).astype(np.int64)
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

    unsigned = {8: np.uint8, 16: np.uint16, 32: np.uint32}[_BITS[name]]
    signed = {8: np.int8, 16: np.int16, 32: np.int32}[_BITS[name]]
    return torch.from_numpy(made.astype(unsigned).view(signed)).view(getattr(torch, _TORCH[name]))


def as_codes(tensor: Any, name: str) -> NDArray[np.int64]:
    """Return the codes of a tensor."""
    import torch

    signed = {8: torch.int8, 16: torch.int16, 32: torch.int32}[_BITS[name]]
    made: NDArray[np.int64] = tensor.contiguous().view(signed).numpy().astype(np.int64)
    return made & ((1 << _BITS[name]) - 1)

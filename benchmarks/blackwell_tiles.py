"""Random products of tensor memory, bit for bit against MMA-Sim's model of Blackwell.

    python benchmarks/blackwell_tiles.py FOLDER --results N --lanes L --each E --out FILE

FOLDER holds microsoft/MMA-Sim, whose authors fitted its models to hardware; it is not part of this
repository. Every lane draws tiles of 8 x 8 results, of one form after the other: any bits at all
(infinities, NaN, subnormals), exponents near each other, or sums that cancel. Of each tile
E results, drawn at random, are compared (MMA-Sim takes a millisecond each). FILE gets a line for
each form: how many tiles, how many results, how many differ, and the first that does. MMA-Sim has
no e2m1, e3m2 and e2m3 in products without scales of 16; the model in ptxsan's tests has.

MMA-Sim gives a zero the exponent -126, so that zero times 2**124 cuts smaller terms. An H200 does
not do that (benchmarks/reports/2026-11-28-machine-numerics.md). A result that differs is made again
by MMA-Sim with zeros that have no exponent: `zeros` counts those that are equal then.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import itertools
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptxsan.runtime import tensor_products as T

_SIDE = 8
_FIELDS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m1": 1}
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e2m1": 4}
_STORED = {"f16": 10, "bf16": 7, "tf32": 23, "e4m3": 3, "e5m2": 2, "e2m1": 1}
_BIAS = {"f16": 15, "bf16": 127, "tf32": 127, "e4m3": 7, "e5m2": 15, "e2m1": 1}
_TORCH: dict[str, Any] = {
    "f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32,
    "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
}  # fmt: skip
_WORDS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A kind of product: formats, depth, format of D, scales of each row and their format."""

    kind: int
    a: str
    b: str
    depth: int
    half: bool = False
    scales: int = 0
    scale: str = ""

    @property
    def name(self) -> str:
        """The form in words."""
        scaled = f", {self.scales} scales {self.scale}" if self.scales else ""
        return f"{self.a} x {self.b} -> {'f16' if self.half else 'f32'}, K = {self.depth}{scaled}"

    @property
    def described(self) -> int:
        """What an instruction descriptor says of the formats."""
        a, b = _FIELDS[self.a] << 7, _FIELDS[self.b] << 10
        return a | b | (not self.half) << 4 | (self.scale == "ue8m0") << 23


_EIGHTS = [(x, y) for x in ("e4m3", "e5m2") for y in ("e4m3", "e5m2")]
FORMS = (
    Form(kind=T.F16, a="f16", b="f16", depth=16), Form(kind=T.F16, a="bf16", b="bf16", depth=16),
    Form(kind=T.F16, a="f16", b="f16", depth=16, half=True),
    Form(kind=T.F16, a="bf16", b="f16", depth=16), Form(kind=T.TF32, a="tf32", b="tf32", depth=8),
    *(Form(kind=T.F8F6F4, a=x, b=y, depth=32) for x, y in _EIGHTS),
    *(Form(kind=T.F8F6F4, a=x, b=y, depth=32, half=True) for x, y in _EIGHTS),
    *(Form(kind=T.MXF8F6F4, a=x, b=y, depth=32, scales=1, scale="ue8m0") for x, y in _EIGHTS),
    Form(kind=T.MXF4, a="e2m1", b="e2m1", depth=64, scales=2, scale="ue8m0"),
    Form(kind=T.MXF4NVF4, a="e2m1", b="e2m1", depth=64, scales=4, scale="ue8m0"),
    Form(kind=T.MXF4NVF4, a="e2m1", b="e2m1", depth=64, scales=4, scale="ue4m3"),
)  # fmt: skip


def _codes(random: np.random.Generator, name: str, way: int) -> NDArray[np.int64]:
    """Return codes [8, depth] drawn one way: 0 any bits, else exponents near each other."""
    bits, stored = _BITS[name], _STORED[name]
    shape = (_SIDE, 64)
    if way == 0 or bits == 4:
        return random.integers(0, 1 << bits, shape)
    span = 2 if way == 1 else 8
    field = np.clip(random.integers(_BIAS[name] - span, _BIAS[name] + span, shape), 0, None)
    top = (1 << (bits - 1 - stored)) - 2
    low = random.integers(0, 1 << stored, shape)
    return random.integers(0, 2, shape) << (bits - 1) | np.minimum(field, top) << stored | low


def _tensor(codes: NDArray[np.int64], name: str) -> torch.Tensor:
    """Return codes as MMA-Sim takes them: numbers, pairs of 4 bits; TF32 loses what is not read."""
    if name == "e2m1":
        return torch.from_numpy((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
    words = codes & ~0x1FFF if name == "tf32" else codes
    return torch.from_numpy(words.astype(_WORDS[_BITS[name]])).view(_TORCH[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How many tiles and results, how many differ, how many of these by a zero, the first."""

    tiles: int = 0
    results: int = 0
    differ: int = 0
    zeros: int = 0
    first: str = ""

    def __add__(self, other: Compared) -> Compared:
        return Compared(
            tiles=self.tiles + other.tiles,
            results=self.results + other.results, differ=self.differ + other.differ,
            zeros=self.zeros + other.zeros, first=self.first or other.first,
        )  # fmt: skip


def tiles(form: Form, random: np.random.Generator, sim: Any, each: int) -> Compared:
    """Compare `each` results of one tile of random products."""
    way = int(random.integers(0, 3))
    a, b = (_codes(random, one, way)[:, : form.depth].copy() for one in (form.a, form.b))
    kind = np.float16 if form.half else np.float32
    size = float(2.0 ** random.integers(-6, 12))
    c = (random.standard_normal((_SIDE, _SIDE)) * size).astype(kind)
    if way == 0:
        word = np.uint16 if form.half else np.uint32
        c = random.integers(0, 1 << 8 * c.itemsize, c.shape).astype(word).view(kind)
    if way == 2:  # what cancels: the second half of each row undoes the first
        half = form.depth // 2
        a[:, half:], b[:, half:] = a[:, :half] ^ 1 << (_BITS[form.a] - 1), b[:, :half]
    count = max(form.scales, 1)
    low, high = (100, 150) if form.scale == "ue8m0" else (0, 128)
    codes = [random.integers(low, high, (_SIDE, count)) for _ in range(2)]
    if way == 0 and form.scale == "ue8m0":
        codes = [random.integers(0, 256, one.shape) for one in codes]
    result = c.view(np.uint16 if form.half else np.uint32).astype(np.int64).reshape(_SIDE, 1, 8)
    panels = np.ascontiguousarray(b.T).reshape(1, form.depth, 8)
    T.add_products(form.kind, form.described, a.copy(), panels, codes[0], codes[1], result)
    places = random.permutation(_SIDE * _SIDE)[:each]
    factors = _tensor(a, form.a), _tensor(b, form.b)
    return _compared(form, sim, factors, c, codes, result, places)


def _compared(
    form: Form, sim: Any, factors: tuple[torch.Tensor, torch.Tensor], c: NDArray[Any],
    codes: list[NDArray[np.int64]], result: NDArray[np.int64], places: NDArray[np.int64],
) -> Compared:  # fmt: skip
    kind = torch.float8_e8m0fnu if form.scale == "ue8m0" else torch.float8_e4m3fn
    scales = [torch.from_numpy(one.astype(np.uint8)).view(kind) for one in codes]
    differ, zeros, first = 0, 0, ""
    for row, column in zip(*np.divmod(places, _SIDE), strict=True):
        given = (
            (factors[0][row], factors[1][column]), torch.tensor(c[row, column]),
            (scales[0][row], scales[1][column]),
        )  # fmt: skip
        wanted, own = _simulated(form, sim, *given), int(result[row, 0, column])
        if wanted == own:
            continue
        differ += 1
        with _zeros_without_exponent(sim):
            zeros += _simulated(form, sim, *given) == own
        first = first or f"{form.name}: {own:#x}, MMA-Sim {wanted:#x}"
    return Compared(tiles=1, results=len(places), differ=differ, zeros=zeros, first=first)


def _simulated(
    form: Form, sim: Any, factors: tuple[torch.Tensor, torch.Tensor], own: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor],
) -> int:  # fmt: skip
    """Return the code of MMA-Sim's sum of one row times one column, and an accumulator."""
    x, y = factors
    output = "f16" if form.half else "f32"
    if form.depth == 64:
        x, y = sim.unpack_fp4_tensor(x), sim.unpack_fp4_tensor(y)
        found = sim.nv_fused_dot_add_with_block_scale(x, y, own, *scales, 35)
    elif form.scales:
        found = sim.nv_fused_dot_add(x, y, own, 25, output, scales[0][0], scales[1][0])
    else:
        found = sim.nv_fused_dot_add(x, y, own, 25, output)
    bits = int(found.reshape(1).view(torch.int16 if form.half else torch.int32).item())
    return bits & (0xFFFF if form.half else 0xFFFFFFFF)


@contextlib.contextmanager
def _zeros_without_exponent(sim: Any) -> Iterator[None]:
    """Let a zero factor be far below every other exponent in this block."""
    before = sim.extract_significand_exponent

    def after(*given: Any) -> tuple[float, int]:
        significand, exponent = before(*given)
        return significand, exponent if significand else -900

    sim.extract_significand_exponent = after
    try:
        yield
    finally:
        sim.extract_significand_exponent = before


def _lane(given: tuple[int, Path, float, int, int]) -> dict[str, Compared]:
    """Compare tiles until the time is over or there are enough; return what each form gave."""
    number, folder, until, most, each = given
    sys.path.insert(0, str(folder))
    torch.set_num_threads(1)
    sim = importlib.import_module("mmasim.simulator.arithmetic")
    random = np.random.default_rng(number)
    found: dict[str, Compared] = {}
    for form in itertools.cycle(FORMS):
        if time.time() > until or sum(one.results for one in found.values()) >= most:
            return found
        found[form.name] = found.get(form.name, Compared()) + tiles(form, random, sim, each)
    return found


def main() -> int:
    """Compare; return 1 where a result differs, and not by a zero alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--results", type=int, default=20_000)
    parser.add_argument("--each", type=int, default=_SIDE * _SIDE, help="results of a tile")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    until, most = time.time() + given.seconds, -(-given.results // given.lanes)
    jobs = [
        (given.seed * 4096 + one, given.folder, until, most, given.each)
        for one in range(given.lanes)
    ]
    with multiprocessing.get_context("spawn").Pool(given.lanes) as pool:
        parts = pool.map(_lane, jobs, chunksize=1)
    all_of = Compared()
    with given.out.open("w") as file:
        for form in FORMS:
            row = sum((one[form.name] for one in parts if form.name in one), Compared())
            file.write(json.dumps({"form": form.name, **dataclasses.asdict(row)}) + "\n")
            all_of += row
    counts = f"{all_of.tiles:,} tiles, {all_of.results:,} results, {all_of.differ:,} differ"
    sys.stdout.write(f"{counts}, {all_of.zeros:,} of these by a zero\n")
    return int(all_of.differ > all_of.zeros)


if __name__ == "__main__":
    sys.exit(main())

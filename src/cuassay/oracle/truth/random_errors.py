"""Random errors of a draw: honest roundings as normal noise, added in lifted precision."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.oracle.lift.together import NotTogether, all_runs, bits_as, by_run, differs


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The numbers of a format inside float32: bits of its significand, bits of float32's that
    it drops, and the binade below which spacings no longer shrink (0: none)."""

    precision: int
    dropped: int
    least: float = 0.0


BFLOAT16 = Grid(precision=8, dropped=16)
FLOAT16 = Grid(precision=11, dropped=13, least=2.0**-14)
TF32 = Grid(precision=11, dropped=13)
_EXPONENT_BITS = 0x7F800000
_SNAP_ULPS = 8  # float32 spacings from the grid within which a value was exact as written
_ROOT3 = 3.0**-0.5
SENTINEL = 1e30  # as large, a value is a mask's constant rather than a computed one
_WORTH_WAITING = 1 << 22  # elements from which masks take longer than a round trip to the GPU
_POOL_SLACK = 4  # the pool is a quarter longer than its largest user
_LEAN = 0.75  # u: what constants and approximations add to an operation, everywhere alike
# Below 2^-126 float32's spacings no longer shrink; another association of the same product may
# pass through numbers that much smaller.
_LEAST_NORMAL = 2.0**-126 * 64
HASHED = 1 << 16  # normals that values are mapped to where inputs repeat
_COARSE = 40  # bits cut: values within 2^-12 of each other err alike
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
_LARGE = {"cpu": 1 << 15, "cuda": 1 << 22}  # elements from which looking for zeros pays
# By which an intermediate is multiplied before it is rounded: places in a binade.
FACTORS = tuple(2.0 ** (place / 16) for place in range(16))
_STEP = 7  # places between the multiples of two turns: half a binade
_SCARCE = 4  # at most one row in so many may hold anything but zeros


def look_first(values: Tensor) -> bool:
    """Whether waiting for one look at all elements is cheaper than a mask for a rare case."""
    return values.device.type == "cpu" or all_runs(values).numel() >= _WORTH_WAITING


def moderate(values: Tensor) -> Tensor:
    """Return values with 0 for infinities, NaN and sentinels (1e30 and more).

    Masks add -inf or finfo.min: constants that carry no rounding error. One look at the
    extremes saves the mask, which costs far more on the CPU and for large tensors.
    """
    if values.numel() == 0:
        return values
    if look_first(values):
        low, high = torch.aminmax(all_runs(values))
        if values.device.type == "cpu":  # two numbers are compared sooner by Python
            if low.item() > -SENTINEL and high.item() < SENTINEL:
                return values
        elif bool((low > -SENTINEL) & (high < SENTINEL)):
            return values
    return torch.where(values.abs() < SENTINEL, values, 0.0)


def sizeable(values: Tensor) -> bool:
    """Whether leaving out rows of zeros saves more than looking for them costs."""
    return values.dim() >= 2 and values.numel() >= _LARGE.get(values.device.type, 1 << 22)


def scarce_rows(values: Tensor) -> Tensor | None:
    """Return the rows of axis 0 (int64) that hold anything but zeros, where they are few.

    None for small tensors and full ones. Gradients of embeddings are mostly rows of zeros,
    which no operation on them has to look at. Raises NotTogether where they differ between runs.
    """
    if not sizeable(values) or not values.dtype.is_floating_point:
        return None
    flat = values.reshape(len(values), -1)
    # two vectorised passes on the CPU, where aminmax over an axis is ten times slower
    low, high = torch.aminmax(flat, dim=1) if flat.is_cuda else (flat.amin(1), flat.amax(1))
    live = (low != 0) | (high != 0)  # NaN is not 0
    if differs(live):
        each = by_run(live, -1)
        live = each[0]
        if bool((each != live).any()):
            raise NotTogether("rows of zeros")
    rows = live.nonzero().squeeze(1)
    return rows if len(rows) * _SCARCE <= len(values) else None


def on_live_rows(change: Callable[..., Tensor], live: Tensor, *given: Tensor) -> Tensor:
    """Return `change(*given)`, of few rows only where `live` holds zeros alone in all others."""
    rows = scarce_rows(live)
    if rows is None:
        return change(*given)
    return given[0].index_put((rows,), change(*(tensor[rows] for tensor in given)))


def nearest(values: Tensor, grid: Grid) -> Tensor:
    """Return `values` rounded to nearest, ties to even, on a format's grid.

    Numbers beyond the format's range stay (a kernel that overflows is judged for that), and so do
    sentinels, infinities and NaN.
    """
    if values.is_complex():
        return values
    narrow = values.float()
    bits = bits_as(narrow, torch.int32)
    half = (1 << (grid.dropped - 1)) - 1
    kept = (bits >> grid.dropped).bitwise_and_(1).add_(half).add_(bits)
    found = bits_as(kept.bitwise_and_(-(1 << grid.dropped)), torch.float32)
    if grid.least:
        spacing = grid.least * 2.0 ** (1 - grid.precision)
        found = torch.where(narrow.abs() < grid.least, (narrow / spacing).round_() * spacing, found)
    return torch.where(narrow.abs() < SENTINEL, found.to(values.dtype), values)


def nearest_multiple(values: Tensor, factor: Tensor | float, grid: Grid) -> Tensor:
    """Return `values` as of a kernel that rounds `factor` times them: numbers on the grid stay."""
    found = nearest(values * factor, grid).div_(factor)
    bits = bits_as(values.float(), torch.int32)
    off_grid = ((bits + _SNAP_ULPS) & ((1 << grid.dropped) - 1)) > 2 * _SNAP_ULPS
    return torch.where(off_grid.logical_and_(values.abs() < SENTINEL), found, values)


def cut_off(values: Tensor, grid: Grid) -> Tensor:
    """Return `values` as where a format's bits alone are read of them, toward zero.

    Sentinels, infinities and NaN stay.
    """
    kept = bits_as(values.float(), torch.int32) & -(1 << grid.dropped)
    return values + moderate(bits_as(kept, torch.float32) - values)


def hashed(values: Tensor, key: int | Tensor) -> Tensor:
    """Return a place among HASHED for each value: one for values that are equal in 12 bits."""
    bits = values.double().contiguous().view(torch.int64)
    where = bits.bitwise_right_shift(_COARSE).add_(key).mul_(_ODD)
    return where.bitwise_right_shift_(44).bitwise_and_(HASHED - 1)


@dataclass(frozen=True, slots=True)
class LogSum:
    """How a run adds up logarithms: `factor` times each, anew after so many `terms`.

    One that `runs` rounds each sum and goes on with it. Another one rounds each sum by itself, as
    where it is made in parallel or in a wider type.
    """

    terms: int
    factor: float
    runs: bool


class Noise:
    """Seeded errors of size `roundoff` (unit roundoff of the accumulation, times a gain).

    Normals come from one pool a draw (float32 normals, widened on the CPU where mixed types are
    slow), read at a random offset and with a random sign per use: drawing them afresh for
    every operation was the largest single cost. Offsets keep elements of one row or column
    independent, signs keep whole sums uncorrelated on average.

    With `repeats` the inputs hold equal or nearly equal rows or elements, which err alike in
    every kernel: the normal is then a function of the value that errs, cut to 12 bits. With
    `tiny` some value may be subnormal in float32, where roundings are absolute. A draw that
    `cuts` has operands cut off where another rounds them, one that `rounds` really rounds what is
    stored in 16 bits where another errs by as much, and one that `reassociates` too a multiple of
    each intermediate. `turn` says in which order it adds and multiplies, `log_sum` how it adds up
    the logarithms of decays that the reference multiplies (`decays`).
    """

    def __init__(
        self,
        seed: int,
        roundoff: float,
        device: torch.device,
        *,
        repeats: bool = False,
        tiny: bool = False,
        cuts: bool = False,
        rounds: bool = False,
        reassociates: bool = False,
        turn: int = 0,
        log_sum: LogSum | None = None,
    ) -> None:
        self.roundoff = roundoff
        self.repeats, self.tiny, self.cuts, self.rounds = repeats, tiny, cuts, rounds
        self.turn = turn
        self.log_sums: tuple[LogSum, ...] = () if log_sum is None else (log_sum,)
        self.random = random.Random(seed)
        # Which of FACTORS. One for all: where a sum rounds a small term away, so does the next one.
        self.factor = 1 + turn * _STEP % (len(FACTORS) - 1) if reassociates else 0
        self._generator = torch.Generator(device=device).manual_seed(seed)
        self.pool = torch.empty(0, device=device)

    def normal(self, shape: Sequence[int], device: torch.device) -> Tensor:
        """Return N(0, 1) of the shape: a view, not to be written."""
        count = math.prod(shape)
        if count * (_POOL_SLACK + 1) > self.pool.numel() * _POOL_SLACK:
            size = max(count + count // _POOL_SLACK + 64, 1024)
            fresh = torch.randn(size, generator=self._generator, device=device)
            self.pool = fresh.double() if device.type == "cpu" else fresh
        offset = self.random.randrange(self.pool.numel() - count + 1)
        return self.pool.narrow(0, offset, count).view(tuple(shape))

    def of(self, values: Tensor) -> Tensor:
        """Return N(0, 1) of the values' shape: equal values get equal ones where inputs repeat."""
        if not self.repeats or values.is_complex() or not values.is_floating_point():
            return self.normal(values.shape, values.device)
        self.normal((HASHED,), values.device)  # the pool is at least as long
        where = hashed(values, self.random.getrandbits(48))
        return self.pool[:HASHED].index_select(0, where.reshape(-1)).view(values.shape)

    def place(self, count: int) -> int:
        """Return one of `count` places."""
        return self.random.randrange(max(count, 1))

    def in_half_of_draws(
        self,
        form: Callable[[Tensor], Tensor],
        given: Tensor,
        usual: Callable[[], Tensor],
        *,
        first: bool,
    ) -> Tensor:
        """Return `form(given)` in one draw of two and in the first one, `usual()` in the others."""
        return form(given) if self.random.getrandbits(1) or first else usual()

    def _signed(self, factor: float) -> float:
        return factor if self.random.getrandbits(1) else -factor

    def _lean(self, out: Tensor, size: Tensor, factor: float) -> Tensor:
        """Return out + factor * size or out - factor * size, all elements one way."""
        return torch.add(out, size, alpha=self._signed(factor))

    def _err(self, out: Tensor, size: Tensor, xi: Tensor, factor: float) -> Tensor:
        """Return out + factor * size * xi, the normals of either sign."""
        return torch.addcmul(out, size, xi, value=self._signed(factor))

    def relative(self, out: Tensor, factor: float) -> Tensor:
        """Return out * (1 + factor * u * xi); a complex number errs in both parts."""
        if out.is_complex():
            return self.additive(out, out.abs().mul_(factor))
        size = moderate(out)
        leaning = self._lean(out, size, _LEAN * self.roundoff)
        if self.tiny:
            size = size.abs().clamp_min(_LEAST_NORMAL / factor)
        return self._err(leaning, size, self.of(out), factor * self.roundoff)

    def plus(self, out: Tensor, size: Tensor, factor: float = 1.0) -> Tensor:
        """Return out + factor * u * size * xi; `size` broadcasts to out."""
        return self._err(out, moderate(size), self.of(out), factor * self.roundoff)

    def kept(self, out: Tensor, deviation: Tensor) -> Tensor:
        """Return out + u * deviation * xi; `deviation` is finite and without sentinels."""
        return self._err(out, deviation, self.of(out), self.roundoff)

    def additive(self, out: Tensor, deviation: Tensor, lean: Tensor | None = None) -> Tensor:
        """Return out + u * deviation * xi, for real and complex results.

        A `lean` is added to all elements or taken from all of them.
        """
        if not out.is_complex():
            if lean is not None:
                out = self._lean(out, lean, self.roundoff)
            if deviation.shape != out.shape:
                return self.plus(out, deviation)
            return on_live_rows(self.plus, deviation, out, deviation)
        xi, other = (self.normal(out.shape, out.device) for _ in range(2))
        error = torch.complex((xi * deviation).double(), (other * deviation).double())
        return out + error.to(out.dtype) * self.roundoff

    def rounding(self, values: Tensor, grid: Grid) -> Tensor:
        """Return `values` with an error of the size of rounding to a format.

        A value on the grid stays (a real rounding is exact there); any other gets an error of
        rms h / sqrt(3), h half a spacing, independent of where it lies, so that a trusted
        error is never 0 by luck.
        """
        if values.is_complex():
            return values
        return on_live_rows(lambda some: self._rounded(some, grid), values, values)

    def stored(self, values: Tensor, grid: Grid) -> Tensor:
        """Return `values` as a format stores them: rounded, in a draw that does not, by `rounding`.

        A real rounding is a function of the value: equal numbers err alike and opposite ones
        oppositely, and no sum averages away what a kernel's would not. But it may be 0 by luck.
        """
        return nearest(values, grid) if self.rounds else self.rounding(values, grid)

    def associated(self, values: Tensor, grid: Grid) -> Tensor:
        """Return an intermediate as a format stores it: the draw's multiple of it.

        Another association stores other multiples of what the reference stores: (x / root) w for
        x (w / root). It rounds by functions of the same values, but by others: by up to twice as
        much where it meets the lower end of a binade, and much where the reference's rounding is
        0. One real rounding in all draws is one sample of what a kernel may do.
        """
        if not (self.rounds and self.factor) or values.is_complex():
            return self.stored(values, grid)
        return nearest_multiple(values, FACTORS[self.factor], grid)

    def one_of(self, orders: Sequence[Callable[[], Tensor]]) -> Tensor:
        """Return what one of the functions makes: that of the draw's turn."""
        return orders[self.turn % len(orders)]()

    def _rounded(self, values: Tensor, grid: Grid) -> Tensor:
        bits = bits_as(values.float(), torch.int32)
        half = bits_as(bits & _EXPONENT_BITS, torch.float32)
        if grid.least:
            half.clamp_min_(grid.least)
        below = (1 << grid.dropped) - 1
        off_grid = ((bits + _SNAP_ULPS) & below) > 2 * _SNAP_ULPS
        half.clamp_max_(2.0**127).mul_(off_grid)
        return self._err(values, half, self.of(values), _ROOT3 * 2.0**-grid.precision)

    def spread(self, values: Tensor, size: Tensor, grid: Grid) -> Tensor:
        """Return `values` with errors of the size that numbers of `size` have from rounding."""
        return self._err(values, moderate(size), self.of(values), _ROOT3 * 2.0**-grid.precision)

    def cut(self, values: Tensor, grid: Grid) -> Tensor:
        """Return `values` as where a format's bits alone are read of them, in a draw that cuts.

        Tensor cores read float32 operands so, unless the kernel has rounded them before: every
        product leans toward zero, by 2^-11 or so for each operand in TF32.
        """
        if values.is_complex() or not self.cuts:
            return values
        return cut_off(values, grid)

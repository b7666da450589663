"""The noise of several draws that are made together: what each of them would draw by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor

from cuassay.oracle.lift.together import NotTogether, by_run, differs, together
from cuassay.oracle.truth.associations import Makes
from cuassay.oracle.truth.random_errors import (
    FACTORS,
    HASHED,
    Grid,
    Noise,
    cut_off,
    hashed,
    nearest,
    nearest_multiple,
)


class Noises(Noise):
    """Draws for each of several runs what its own noise would draw, into tensors that differ.

    `each` have one roundoff and device, and know alike whether values are tiny.
    """

    def __init__(self, each: Sequence[Noise]) -> None:
        self._each = each
        self.roundoff = each[0].roundoff
        self.tiny = each[0].tiny
        self.log_sums = tuple(one for noise in each for one in noise.log_sums)
        self._drawing = list(range(len(each)))
        # Made here: inside a run numbers become the run's own.
        factors = [FACTORS[noise.factor] for noise in each]
        self._factors = torch.tensor(factors, dtype=torch.float64, device=each[0].pool.device)
        self._pools: dict[tuple[int, ...], Tensor] = {}

    def normal(self, shape: Sequence[int], device: torch.device) -> Tensor:
        """Return N(0, 1) of the shape in every run that draws, 0 in others."""
        return together(torch.stack(self._normals(shape, device)))

    def of(self, values: Tensor) -> Tensor:
        """Return what each run's own noise returns for its values."""
        repeating = tuple(n for n in self._drawing if self._each[n].repeats)
        if not repeating or values.is_complex() or not values.is_floating_point():
            return self.normal(values.shape, values.device)
        shape, count = values.shape, len(self._each)
        own = by_run(values, count)[list(repeating)] if differs(values) else values[None]
        keys = []
        for number in repeating:
            noise = self._each[number]
            noise.normal((HASHED,), values.device)  # the pool is at least as long
            keys.append(noise.random.getrandbits(48))
        rows = (len(repeating), *[1] * len(shape))
        key = torch.tensor(keys, device=values.device).view(rows)
        if own.shape[0] == 1:
            own = own.expand(len(repeating), *shape)
        begins = torch.arange(0, len(repeating) * HASHED, HASHED, device=values.device)
        where = hashed(own, key) + begins.view(rows)
        found = self._pool_of(repeating).index_select(0, where.reshape(-1)).view(-1, *shape)
        if len(repeating) == count:
            return together(found)
        rest = self._normals(shape, values.device, among=set(self._drawing) - set(repeating))
        for place, number in enumerate(repeating):
            rest[number] = found[place]
        return together(torch.stack(rest))

    def place(self, count: int) -> int:
        """Raise NotTogether: a place is a number of one run."""
        raise NotTogether("a random place")

    def in_half_of_draws(
        self,
        form: Callable[[Tensor], Tensor],
        given: Tensor,
        usual: Callable[[], Tensor],
        *,
        first: bool,
    ) -> Tensor:
        """Return `form` where a run's own coin says so and in the first run, else `usual`.

        It is made for each run by itself: of numbers in float32 the last bit depends on where a
        vectorised loop ends, and is what an error is made of.
        """
        heads = [
            bool(noise.random.getrandbits(1)) or (first and not number)
            for number, noise in enumerate(self._each)
        ]
        made = together(torch.stack([form(one) for one in by_run(given, len(self._each))]))
        with self._only([not head for head in heads]):
            return torch.where(self._mask(heads, made.device), made, usual())

    def stored(self, values: Tensor, grid: Grid) -> Tensor:
        """Return values rounded in the runs that round, with errors of that size in the others."""
        return self._stored(values, grid, [])

    def associated(self, values: Tensor, grid: Grid) -> Tensor:
        """Return values as `stored` does, in runs that round a multiple by that multiple."""
        runs = [n for n, noise in enumerate(self._each) if noise.rounds and noise.factor]
        return self._stored(values, grid, runs)

    def _stored(self, values: Tensor, grid: Grid, multiplied: Sequence[int]) -> Tensor:
        """Return stored values, of the runs `multiplied` by their multiples."""
        if values.is_complex():
            return values
        rounds, count = [noise.rounds for noise in self._each], len(self._each)
        with self._only([not one for one in rounds]):
            erring = self.rounding(values, grid)
        found = torch.where(self._mask(rounds, values.device), nearest(values, grid), erring)
        if not multiplied:
            return found
        runs, whole = list(multiplied), by_run(found, count)
        own = by_run(values, count)[runs] if differs(values) else values[None]
        factor = self._factors[runs].to(values.dtype).view(-1, *[1] * values.dim())
        whole[runs] = nearest_multiple(own, factor, grid)
        return together(whole)

    def one_of(self, orders: Makes) -> Tensor:
        """Return what each run's own function makes."""
        return in_turn(orders, [noise.turn for noise in self._each], drawing=self._only)

    def cut(self, values: Tensor, grid: Grid) -> Tensor:
        """Return values cut off in the runs that cut."""
        cuts = [noise.cuts for noise in self._each]
        if values.is_complex() or not any(cuts):
            return values
        return torch.where(self._mask(cuts, values.device), cut_off(values, grid), values)

    def _lean(self, out: Tensor, size: Tensor, factor: float) -> Tensor:
        return torch.add(out, size * self._signs(size), alpha=factor)

    def _err(self, out: Tensor, size: Tensor, xi: Tensor, factor: float) -> Tensor:
        # On a GPU sizes and normals are float32, beside float64 results.
        return torch.addcmul(out, size.to(out.dtype), xi * self._signs(xi), value=factor)

    def _signs(self, like: Tensor) -> Tensor:
        """Return 1 or -1 of each run that draws."""
        pattern = sum(self._each[n].random.getrandbits(1) << n for n in self._drawing)
        return together(_patterns(len(self._each), like.dtype, like.device)[pattern])

    @contextmanager
    def _only(self, chosen: Sequence[bool]) -> Iterator[None]:
        """Let only some of the runs draw, of those that do."""
        before, self._drawing = self._drawing, [n for n in self._drawing if chosen[n]]
        try:
            yield
        finally:
            self._drawing = before

    def _normals(
        self, shape: Sequence[int], device: torch.device, *, among: set[int] | None = None
    ) -> list[Tensor]:
        drawing = sorted(self._drawing if among is None else among)
        found = {n: self._each[n].normal(shape, device) for n in drawing}
        if len(found) < len(self._each):
            dtype = found[drawing[0]].dtype if drawing else None
            zero = torch.zeros((), device=device, dtype=dtype).expand(tuple(shape))
            return [found.get(n, zero) for n in range(len(self._each))]
        return list(found.values())

    def _pool_of(self, numbers: tuple[int, ...]) -> Tensor:
        """Return the first HASHED normals of the pools of some runs, one after another."""
        pools = [self._each[n].pool for n in numbers]
        key = tuple(pool.data_ptr() for pool in pools)
        if key not in self._pools:
            self._pools = {key: torch.cat([pool[:HASHED] for pool in pools])}
        return self._pools[key]

    def _mask(self, of: Sequence[bool], device: torch.device) -> Tensor:
        return mask_of_runs(tuple(of), device)


def in_turn(
    orders: Makes,
    turns: Sequence[int],
    *,
    drawing: Callable[[Sequence[bool]], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Tensor:
    """Return what one of the orders makes for each run, by its turn.

    In `drawing` only the runs that it is given draw. A single run needs no other to be made.
    """
    picks = [turn % len(orders) for turn in turns]
    first, *others = sorted(set(picks))
    with drawing([pick == first for pick in picks]):
        found = orders[first]()
    for place in others:
        mine = tuple(pick == place for pick in picks)
        with drawing(mine):
            made = orders[place]()
        found = torch.where(mask_of_runs(mine, made.device), made, found)
    return found


def mask_of_runs(of: tuple[bool, ...], device: torch.device) -> Tensor:
    """Return one flag a run, to choose between tensors of several runs."""
    return together(_flags(of, device))


@functools.lru_cache(maxsize=256)
def _flags(of: tuple[bool, ...], device: torch.device) -> Tensor:
    """Return one flag a run. A GPU is waited for when numbers go there."""
    return torch.tensor(of, device=device)


@functools.lru_cache(maxsize=16)
def _patterns(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return all rows of `count` signs; bit n of a row's number says whether sign n is 1."""
    rows = [[1.0 if row >> n & 1 else -1.0 for n in range(count)] for row in range(1 << count)]
    return torch.tensor(rows, dtype=dtype, device=device)

"""Runs a launch in the machine at sizes that its law gives: what a counterexample really does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from ptxsan import isa
from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineFinding, Severity
from ptxsan.prove import law as L

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ptxsan.launch import Buffer, Pointer

MOST_BYTES = 1 << 28
MOST_THREADS = 1 << 22
FEW_THREADS = 1 << 13  # a launch of no more runs as quickly as one of its blocks
MOST_OF_ONE = 1 << 37  # bytes: half of the addresses that an allocation has in the machine
MEMORY_FAULTS = frozenset((Kind.OUT_OF_BOUNDS, Kind.ADDRESS_OVERFLOW, Kind.MISALIGNED))
UNWRITTEN_FAULTS = frozenset((Kind.UNINITIALISED,))
ORDER_FAULTS = frozenset((Kind.RACE, Kind.UNORDERED, Kind.DIVERGENT_BARRIER, Kind.DEADLOCK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Datum:
    """What an input holds in a counterexample: an integer of `nbytes` bytes at a byte of a region.

    `name` is the region's.
    """

    region: int
    name: str
    offset: int
    nbytes: int
    value: int


def furnished(
    memory: NDArray[np.uint8], low: int, high: int, nbytes: int, data: Sequence[Datum]
) -> None:
    """Place integers in the memory of a region all of whose integers lie within [low, high].

    The others become zero, or the bound that is nearest. Raises ValueError for an integer that
    lies outside of the memory, or is not legal.
    """
    import numpy as np

    usual = min(max(0, low), high)
    if usual:
        whole = memory[: len(memory) // nbytes * nbytes]
        whole.view(np.dtype(f"i{nbytes}"))[:] = usual
    for one in data:
        if not (0 <= one.offset <= len(memory) - nbytes and one.offset % nbytes == 0):
            raise ValueError(f"byte {one.offset} is not in {one.name}")
        if not low <= one.value <= high or one.nbytes != nbytes:
            raise ValueError(f"{one.name} may not hold {one.value}")
        bits = one.value & ((1 << 8 * nbytes) - 1)
        raw = np.frombuffer(bits.to_bytes(nbytes, "little"), np.uint8)
        memory[one.offset : one.offset + nbytes] = raw


def risen(count: int, low: int, high: int, known: Mapping[int, int]) -> tuple[int, ...] | None:
    """Return `count` integers that rise from `low` to `high` and are as `known` at some places.

    The others are as small as they may be. None where there are no such integers.
    """
    found, last = [], low
    for place in range(count):
        end = high if place == count - 1 else None
        value = known.get(place, end if end is not None else last)
        if value < last or value > high or (place == 0 and value != low):
            return None
        if end is not None and value != end:
            return None
        found.append(value)
        last = value
    return tuple(found) if known.keys() <= set(range(count)) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What the machine found at sizes: faults, or why there is no answer.

    `accesses` counts the instructions of the PTX that touched memory, whatever threads ran them.
    """

    sizes: Mapping[str, int]
    faults: tuple[MachineFinding, ...] = ()
    why: str = ""
    accesses: int = 0


class Extent(Enum):
    """How much of a launch can be run here."""

    SMALL = auto()  # all of it, as quickly as one of its blocks
    WHOLE = auto()
    LARGE = auto()  # some blocks


def extent(law: L.LaunchLaw, sizes: Mapping[str, int]) -> Extent:
    """Return how much of a launch can be run at sizes; of one without a law nothing can."""
    dims, lengths = (*law.grid, *law.block), law.regions
    threads = math.prod(L.evaluated(one, sizes) for one in dims if one is not None)
    memory = sum(L.evaluated(one, sizes) for one in lengths if one is not None)
    if memory > MOST_BYTES or threads > MOST_THREADS:
        return Extent.LARGE
    return Extent.SMALL if threads <= FEW_THREADS else Extent.WHOLE


def replay(
    law: L.LaunchLaw,
    sizes: Mapping[str, int],
    kinds: frozenset[Kind] = MEMORY_FAULTS,
    *,
    seed: int | None = None,
    limit_s: float = 20.0,
    blocks: Sequence[tuple[int, int, int]] = (),
    values: Mapping[int, L.Integers] | None = None,
    data: Sequence[Datum] = (),
) -> Replayed:
    """Return what one launch does at sizes, on memory of the lengths that the law gives.

    `kinds` are the faults to look for. Memory holds zeros, or with a seed float32 numbers of
    (0, 1): threads that write the same zero are not told from threads that agree.

    Of a launch that is not small, `blocks` run alone, if some are given, on memory that has only
    the pages that they touch. A GPU may run them first, so what they run into before any other
    block is a fault of the launch; who races with whom they do not show. `values` says which
    integers regions hold, by number; `data` are some of those that are free, or all rising ones.

    Scalar arguments without a law make it impossible, or that do not fit their bytes: host code
    would launch something else.
    """
    import numpy as np

    from ptxsan import pages
    from ptxsan.launch import Buffer, Launch
    from ptxsan.options import Options
    from ptxsan.parser import parse
    from ptxsan.program import build
    from ptxsan.run import run

    known = (*law.grid, *law.block, law.shared_bytes, *law.regions)
    if any(one is None for one in known):
        return Replayed(sizes=sizes, why="the launch has no complete law")
    numbers = [L.evaluated(one, sizes) for one in known if one is not None]
    grid, block, shared, lengths = numbers[:3], numbers[3:6], numbers[6], numbers[7:]
    if Kind.UNINITIALISED in kinds:
        blocks = ()  # what other blocks write is not known of some that run alone
    size = extent(law, sizes)
    large = size is Extent.LARGE or (size is Extent.WHOLE and bool(blocks))
    races = not kinds.isdisjoint(ORDER_FAULTS)
    some = [one for one in blocks if all(0 <= a < b for a, b in zip(one, grid, strict=True))]
    if large and (races or not some or max(lengths, default=0) > MOST_OF_ONE):
        return Replayed(sizes=sizes, why="it is too large to run here")
    if min(lengths, default=0) < 0:
        return Replayed(sizes=sizes, why="the law gives a negative length")
    if not all(  # signed or not
        -(1 << 8 * width - 1) <= L.evaluated(word.law, sizes) < 1 << 8 * width
        for (argument, offset, width), word in law.words.items()
        if isinstance(word, L.Scalar)
        and not isinstance(law.words.get((argument, offset // 8 * 8, 8)), L.Place)
    ):
        return Replayed(sizes=sizes, why="a scalar argument does not fit its bytes")
    draw = np.random.default_rng(seed)
    buffers = []
    for number, length in enumerate(lengths):
        held = (values or {}).get(number)
        here = [one for one in data if one.region == number]
        try:
            memory = pages.zeros(length, reserved=not large)
            if held is not None and (held.free or held.rising):
                _fill(memory, held, sizes, here, large=large)
            elif seed is not None and not large:
                memory[:] = draw.random(-(-length // 4), np.float32).view(np.uint8)[:length]
        except (MemoryError, ValueError) as error:
            return Replayed(sizes=sizes, why=str(error))
        # What an earlier launch may have written counts as written.
        unwritten = Kind.UNINITIALISED in kinds and law.unwritten.get(number) == ()
        flags = np.zeros(length, np.bool_) if unwritten else None
        buffers.append(Buffer(name=law.name_of(number), data=memory, initialised=flags))
    arguments, inside = _arguments(law, sizes, buffers)
    launch = Launch(
        kernel=law.kernel, grid=(grid[0], grid[1], grid[2]), block=(block[0], block[1], block[2]),
        arguments=arguments, dynamic_shared_bytes=shared,
        pointers_inside=inside, buffers=tuple(buffers),
    )  # fmt: skip
    alone = sorted({x + grid[0] * (y + grid[1] * z) for x, y, z in some}) if large else []
    options = Options(shadow=False, races=races, limit_s=limit_s, blocks=tuple(alone))
    module = parse(law.module)
    try:
        report = run(module, launch, options=options)
    except MachineError as error:
        return Replayed(sizes=sizes, why=str(error))
    wrong = (one for one in report.findings if one.severity is Severity.WRONG)
    faults = tuple(one for one in wrong if one.kind in kinds)
    ran = report.statistics.executed_lines
    touching = (
        one.line
        for one in build(module, law.kernel).body
        if one.line in ran
        and isa.row(one).memory is not isa.Memory.NONE
        and isa.space_of(one) != "param"
    )
    return Replayed(
        sizes=sizes, faults=faults, why=report.inconclusive or "", accesses=len(set(touching))
    )


def _fill(
    memory: NDArray[np.uint8],
    held: L.Integers,
    sizes: Mapping[str, int],
    data: Sequence[Datum],
    *,
    large: bool,
) -> None:
    """Make the zeros of a region integers that it may hold, with `data` among them.

    Of a `large` one only what is named is touched. Raises ValueError where that cannot be.
    """
    low, high = L.evaluated(held.low, sizes), L.evaluated(held.high, sizes)
    if large and not low <= 0 <= high:
        raise ValueError("it is too large to fill with legal integers")
    if held.rising and not data and len(memory) >= held.nbytes:
        last = (len(memory) // held.nbytes - 1) * held.nbytes
        data = (Datum(region=0, name="", offset=last, nbytes=held.nbytes, value=high),)
    furnished(memory, low, high, held.nbytes, data)


def _arguments(
    law: L.LaunchLaw, sizes: Mapping[str, int], buffers: Sequence[Buffer]
) -> tuple[tuple[Pointer | bytes, ...], tuple[tuple[int, int, Pointer], ...]]:
    """Return a launch's arguments at sizes, and the pointers inside of structures."""
    from ptxsan.launch import Pointer

    arguments: list[Pointer | bytes] = []
    inside: list[tuple[int, int, Pointer]] = []
    for number, nbytes in enumerate(law.parameter_bytes):
        whole = law.words.get((number, 0, 8)) if nbytes == 8 else None
        if isinstance(whole, L.Place):
            offset = L.evaluated(whole.offset, sizes)
            arguments.append(Pointer(buffer=buffers[whole.region], offset=offset))
            continue
        raw = bytearray(nbytes)
        for (at, offset, width), word in sorted(law.words.items(), key=lambda item: item[0][2]):
            if at != number:
                continue
            match word:
                case L.Scalar(value):
                    number_ = L.evaluated(value, sizes) & ((1 << 8 * width) - 1)
                    raw[offset : offset + width] = number_.to_bytes(width, "little")
                case L.Place(region, place):
                    pointer = Pointer(buffer=buffers[region], offset=L.evaluated(place, sizes))
                    inside.append((number, offset, pointer))
                case L.Lawless():
                    continue
        arguments.append(bytes(raw))
    return tuple(arguments), tuple(inside)

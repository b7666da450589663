"""How far a launch law holds: calls that it was not fitted to confirm or contradict it.

A law is fitted to small calls. Host code that takes another path from a threshold on contradicts
it there; the law then ends before the smallest size that contradicts it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ptxsan.prove import law as L
from ptxsan.prove.machine import Domain

_FEW = 3  # sizes of an axis that show how a law follows it
_ALL = 32  # sizes of a domain that are proved one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """A law with the sizes that it was confirmed for.

    `beyond` counts the calls that confirmed it and were not among those it was made of. `elements`
    are those of the largest tensor of all calls that confirmed it. `ends` says whether a call
    contradicted the law, which holds for smaller sizes only.
    """

    law: L.CallLaw
    domain: Domain
    beyond: int
    elements: int
    ends: bool

    def covers(self, sizes: L.Sizes) -> bool:
        """Whether the law is said to hold at sizes."""
        return self.law.scope.holds(sizes) and _elements(self.domain, sizes) < self.domain.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Laws, each with its reach (None: nothing is left of it), and the calls that none gives."""

    reaches: tuple[tuple[L.CallLaw, Reach | None], ...]
    orphans: tuple[L.Observation, ...]


def confirmed_laws(
    calls: Sequence[L.Observation],
    beyond: Sequence[L.Observation],
    domain: Domain,
    *,
    parts: Sequence[L.Expression] = (),
    known: Collection[str] = (),
) -> Reached:
    """Return the laws of `calls`, as far as the calls `beyond` agree with them.

    Where one of those is given by no law, or laws do not say all that is launched, laws are fitted
    to all calls together: of a grid that grows, or stops to grow, at a large size, say. They count
    if all calls agree with them and they say as much. `known` are inputs of whose integers
    something is known: they have to be the memory that a law says.
    """
    near = reached(L.laws(calls, parts), domain, beyond, known=known)
    unsaid = _unsaid(near)
    if not beyond or not (near.orphans or unsaid):
        return near
    wide = reached(L.laws([*calls, *beyond], parts), domain, beyond, known=known)
    if wide.orphans or _unsaid(wide) > unsaid - (not near.orphans):
        return near
    return replace(
        wide,
        reaches=tuple(
            (law, None if span is None else replace(span, beyond=0)) for law, span in wide.reaches
        ),
    )


def every_size(calls: Sequence[L.Observation], domain: Domain) -> bool:
    """Whether all sizes of a small domain were seen: each is then proved as it was recorded."""
    every: list[tuple[int, ...]] = [()]
    for legal in domain.axes.values():
        if legal.high is None or (legal.high - legal.low) // legal.multiple >= _ALL:
            return False
        first = -(-legal.low // legal.multiple) * legal.multiple
        sizes = range(first, legal.high + 1, legal.multiple)
        every = [(*one, size) for one in every for size in sizes]
        if len(every) > _ALL:
            return False
    seen = {tuple(one.sizes[name] for name in domain.axes) for one in calls}
    return len(every) > 1 and seen.issuperset(every)


def _unsaid(found: Reached) -> int:
    """Return how many extents, lengths and arguments the law that says least does not say."""
    return max((sum(map(_lacks, law.launches)) for law, _ in found.reaches), default=0)


def _lacks(one: L.LaunchLaw) -> int:
    words = (
        isinstance(word, L.Lawless)
        for (number, offset, width), word in one.words.items()
        if width >= 4 and not _is_part(one, number, offset, width)
    )
    extents = (*one.grid, *one.block, one.shared_bytes, *one.regions)
    return sum(words) + sum(each is None for each in extents)


def reached(
    laws: Sequence[L.CallLaw],
    domain: Domain,
    calls: Sequence[L.Observation],
    *,
    known: Collection[str] = (),
) -> Reached:
    """Return what is left of the sizes of each law when other calls were seen.

    Every call has to be what a law says that holds at its sizes; else no law holds there. An axis
    that a law was seen at one or two sizes of is bounded by these: nothing shows how launches
    follow it.
    """
    given = [[one.sizes if gives(law, one, known) else None for one in calls] for law in laws]
    orphans: list[L.Observation] = []
    for _ in range(len(laws) + 1):
        # Where one law ends, calls that it explained may contradict another.
        against = [one.sizes for one in orphans]
        spans = [
            _reach(law, domain, [one for one in row if one is not None], against)
            for law, row in zip(laws, given, strict=True)
        ]
        orphans = [
            one
            for place, one in enumerate(calls)
            if not any(
                span is not None and row[place] is not None and span.covers(one.sizes)
                for span, row in zip(spans, given, strict=True)
            )
        ]
    return Reached(reaches=tuple(zip(laws, spans, strict=True)), orphans=tuple(orphans))


def _reach(
    law: L.CallLaw, domain: Domain, given: Sequence[L.Sizes], against: Sequence[L.Sizes] = ()
) -> Reach | None:
    narrowed = dict(law.scope.bounds)
    for axis, legal in domain.axes.items():
        sizes = {one[axis] for one in law.seen}
        if len(sizes) < _FEW and legal.low != legal.high:
            narrowed[axis] = (min(sizes), max(sizes))
    scope = replace(law.scope, bounds=narrowed)
    held = [*law.seen, *given]
    bad = [one for one in against if scope.holds(one) and _elements(domain, one) < domain.limit]
    bounds, limit = dict(scope.bounds), domain.limit
    if bad:
        for name in domain.axes:
            most, least = max(one[name] for one in held), min(one[name] for one in bad)
            if most < least:
                low, high = bounds.get(name, (None, None))
                bounds[name] = (low, most if high is None else min(most, high))
        fewest = min(_elements(domain, one) for one in bad)
        below = [count for one in held if (count := _elements(domain, one)) < fewest]
        # Where an axis tells the calls apart and elements do not, the axis is what counts.
        if len(below) == len(held) or any(replace(scope, bounds=bounds).holds(one) for one in bad):
            limit = max(below, default=0) + 1
    made = Reach(
        law=replace(law, scope=replace(scope, bounds=bounds)),
        domain=replace(domain, limit=limit, listed=min(domain.listed, limit - 1)),
        beyond=0,
        elements=0,
        ends=bool(bad),
    )
    sure = [one for one in held if made.covers(one)]
    if not sure:
        return None
    return replace(
        made,
        beyond=sum(made.covers(one) for one in given),
        elements=max(_elements(domain, one) for one in sure),
    )


def _elements(domain: Domain, sizes: L.Sizes) -> int:
    return max((L.evaluated(one, sizes) for one in domain.elements), default=1)


def gives(law: L.CallLaw, call: L.Observation, known: Collection[str] = ()) -> bool:
    """Whether a law says what a call launched: extents, arguments, memory and its names.

    A name that is not among `known` may be another one.
    """
    if len(law.launches) != len(call.launches):
        return False
    bases: list[dict[int, int]] = []  # of each launch's regions
    for one, launched in zip(law.launches, call.launches, strict=True):
        found = _places(one, launched, call.sizes, known)
        if found is None:
            return False
        for number, base in found.items():
            if any(
                unwritten
                for (place, _), unwritten in zip(launched.regions, launched.unwritten, strict=False)
                if place == base
            ):
                earlier = one.unwritten.get(number)
                if earlier is None or any(bases[n].get(at) != base for n, at in earlier):
                    return False
        bases.append(found)
    return True


def _places(
    one: L.LaunchLaw, launched: L.Launched, sizes: L.Sizes, known: Collection[str]
) -> dict[int, int] | None:
    """Return where the regions of a launch's law lie; None where it launched something else."""

    def differs(law: L.Expression | None, value: int) -> bool:
        return law is not None and L.evaluated(law, sizes) != value

    extents = zip((*one.grid, *one.block), (*launched.grid, *launched.block), strict=True)
    if (
        (one.module, one.kernel) != (launched.module, launched.kernel)
        or one.parameter_bytes != tuple(map(len, launched.arguments))
        or (launched.cluster != (1, 1, 1)) > one.clustered
        or any(differs(law, value) for law, value in extents)
        or differs(one.shared_bytes, launched.shared_bytes)
    ):
        return None
    bases: dict[int, int] = {}
    for (number, offset, width), word in one.words.items():
        if _is_part(one, number, offset, width):
            continue  # of an address, say, which chance made alike in all calls
        value = int.from_bytes(launched.arguments[number][offset : offset + width], "little")
        match word:
            case L.Scalar(law):
                if (L.evaluated(law, sizes) - value) % (1 << 8 * width):
                    return None
            case L.Place(region, law):
                offset = L.evaluated(law, sizes)
                found = next((one for one in launched.regions if one[0] == value - offset), None)
                if found is None or bases.setdefault(region, found[0]) != found[0]:
                    return None
                if differs(one.regions[region], found[1]):
                    return None
            case L.Lawless():
                pass
    names = dict(zip((base for base, _ in launched.regions), launched.names, strict=False))
    for region, base in bases.items():
        name, called = names.get(base, ""), one.called[region]
        if name not in called and (name in known or any(each in known for each in called)):
            return None
    return bases if len(set(bases.values())) == len(bases) else None


def _is_part(one: L.LaunchLaw, number: int, offset: int, width: int) -> bool:
    """Whether a word lies within a wider one of an argument, of which the law says what it is."""
    return any(
        wide > width
        and (number, offset // wide * wide, wide) in one.words
        and not isinstance(one.words[number, offset // wide * wide, wide], L.Lawless)
        for wide in (8, 4, 2)
    )

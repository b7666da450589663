"""For which sizes of one axis a failure shows, told from a few probes.

Sizes count in steps of the axis. The start fails; larger sizes are probed in growing steps
and at multiples of 256, a change is located by bisection, and a power of two is looked for
that explains it as a remainder. A law is then held against sizes that nobody used to find it: one
that contradicts leaves nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

_JUMPS = (1, 8, 64, 512, 4096)
_LISTED = 4
_TILE = 256
_ROUNDS = 10  # how often a remainder may be refined


_UNUSED = (3 / 7, 5 / 11, 9 / 13)  # where between start and cap a law is tried, unlike any power


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLaw:
    """A law in words, and the sizes, in steps, at which it says that the failure shows."""

    words: str
    shows: Callable[[int], bool]


class OutOfBudget(Exception):
    """No further run is allowed."""


@dataclass(slots=True, kw_only=True)
class SizeProbe:
    """One axis from its failing size `start` up to `cap`, all in steps of `step`.

    `fails` runs the failure at a size and says whether it shows; None where it cannot tell.
    It raises OutOfBudget where no further run is allowed.
    """

    name: str
    start: int
    low: int
    cap: int
    step: int
    fails: Callable[[int], bool | None]
    known: dict[int, bool] = field(default_factory=dict)

    def ask(self, size: int) -> bool | None:
        """Return whether the failure shows at `size`, in steps; each size runs once."""
        if size not in self.known:
            answer = self.fails(size * self.step)
            if answer is None:
                return None
            self.known[size] = answer
        return self.known[size]

    @property
    def failing(self) -> list[int]:
        """Return the sizes known to fail, in steps."""
        return sorted(size for size, failed in self.known.items() if failed)

    @property
    def passing(self) -> list[int]:
        """Return the sizes known to pass, in steps."""
        return sorted(size for size, failed in self.known.items() if not failed)


def size_law(probe: SizeProbe) -> str:
    """Return in words for which sizes the failure shows; empty where nothing was learnt."""
    probe.known[probe.start] = True
    try:
        law = _law(probe)
        if law is None:
            return _listed(probe)
        return law.words if _holds(probe, law) else ""
    except OutOfBudget:
        return _listed(probe)


def _law(probe: SizeProbe) -> SizeLaw | None:
    """Return the law that the probes bear out, None where they bear out none."""
    if probe.start > probe.low:
        probe.ask(probe.start - 1)
    # Probe upwards until a size passes: growing steps, then multiples of 256 (and the one after).
    jumps = [probe.start + jump for jump in _JUMPS]
    tile = -(-(probe.start + 1) // _TILE) * _TILE
    sizes = [*jumps[:3], tile, *jumps[3:], tile + 1]
    if probe.start == probe.low:  # most likely an axis that does not matter
        sizes = [jumps[0], jumps[1], tile]
    first_passing = None
    for size in [size for size in dict.fromkeys(sizes) if size <= probe.cap]:
        if probe.ask(size) is False:
            first_passing = size
            break
    if first_passing is not None:
        return _remainder(probe)
    if len(probe.failing) < 2:
        return None
    if probe.start == probe.low:
        return SizeLaw(words=f"any {probe.name}", shows=lambda size: True)
    if probe.known.get(probe.start - 1) is False:
        words = f"any {probe.name} >= {probe.start * probe.step}"
        return SizeLaw(words=words, shows=lambda size: size >= probe.start)
    return None


def _holds(probe: SizeProbe, law: SizeLaw) -> bool:
    """Whether sizes that were not used to find a law bear it out."""
    found = [round(probe.start + part * (probe.cap - probe.start)) for part in _UNUSED]
    found += [probe.start + 2, probe.start + 5]
    if probe.start > probe.low + 1:
        found.append((probe.low + probe.start) // 2)
    inside = [size for size in found if probe.low <= size <= probe.cap]
    unused = [size for size in dict.fromkeys(inside) if size not in probe.known]
    for size in unused:
        answer = probe.ask(size)
        if answer is not None and answer is not law.shows(size):
            return False
    return True


def _remainder(probe: SizeProbe) -> SizeLaw | None:
    """Return the law as a remainder of a power of two, None where none explains it."""
    for _ in range(_ROUNDS):
        # The last size of the run of failing ones from the start, by bisection.
        high = min(size for size in probe.passing if size > probe.start)
        last = max(size for size in probe.failing if size < high)
        while high - last > 1:
            middle = (last + high) // 2
            if probe.ask(middle):
                last = middle
            else:
                high = middle
        period = _period(probe, last)
        if period is None:
            if any(size > last for size in probe.failing) or probe.start != probe.low:
                return None
            if last == probe.start:
                return None
            words = f"only when {probe.name} <= {last * probe.step}"
            return SizeLaw(words=words, shows=lambda size, last=last: size <= last)  # type: ignore[misc]
        inner = probe.start - 1 + period // 2
        if probe.start <= inner <= last and probe.ask(inner) is False:
            continue  # the run of failing sizes has a gap: look again below it
        # Whether the next run ends where it should, a third begins, and no probe contradicts
        for size in (last + period, last + period + 1, probe.start + 2 * period):
            if size <= probe.cap:
                probe.ask(size)
        first, length = probe.start % period, last - probe.start

        def shows(
            size: int, *, first: int = first, length: int = length, period: int = period
        ) -> bool:
            return size >= probe.start and (size - first) % period <= length

        if all(
            shows(size) == failed for size, failed in probe.known.items() if size >= probe.start
        ):
            return SizeLaw(words=_remainder_text(probe, last, period), shows=shows)
        return None
    return None


def _period(probe: SizeProbe, last: int) -> int | None:
    """Return the least power of two by which the run of failing sizes repeats."""
    period = 2
    while probe.start + period <= probe.cap:
        longer = period > last - probe.start + 1
        if longer and probe.ask(probe.start + period) and not probe.ask(probe.start + period - 1):
            return period
        period *= 2
    return None


def _remainder_text(probe: SizeProbe, last: int, period: int) -> str:
    first, final = probe.start % period, last % period
    step, modulus = probe.step, f"{probe.name} mod {period * probe.step}"
    if first == final:
        text = f"{modulus} = {first * step}"
    elif last - probe.start == period - 2:
        text = f"{modulus} != {(final + 1) % period * step}"
    elif final == period - 1:
        text = f"{modulus} > {(first - 1) * step}"
    elif final < first:
        text = f"{modulus} <= {final * step} or >= {first * step}"
    else:
        text = f"{modulus} from {first * step} to {final * step}"
    larger = f" and {probe.name} >= {probe.start * step}" if probe.start > period else ""
    return f"only when {text}{larger}"


def _listed(probe: SizeProbe) -> str:
    """Return a few sizes that fail and that pass, where no rule was found."""
    failing, passing = probe.failing, probe.passing
    if not passing or len(failing) + len(passing) < 3:
        return ""
    return f"{probe.name} = {_some(failing, probe)}, not {_some(passing, probe)}"


def _some(sizes: list[int], probe: SizeProbe) -> str:
    shown = ", ".join(str(size * probe.step) for size in sizes[:_LISTED])
    return shown + (", ..." if len(sizes) > _LISTED else "")

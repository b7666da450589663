"""In which order the checks of a trial run, and what runs beside what: of their `Needs` alone.

Pure functions. One side of a trial runs checks one after another; where sides run beside the
first, they take what needs no turn of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cuassay.checks.base import Check
from cuassay.checks.needs import Group, Process, Split, When
from cuassay.model.device import Device
from cuassay.model.verdict import Profile

_LAST = (When.EXECUTED, When.AFTER_CLEAN)  # their work begins before other checks and ends alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The checks of a trial, each once, in order: `first`, `untouched`, then the others.

    `first` decide how others call a kernel. `untouched` need a process in which nothing ran, and
    leave it to the others as it is: sides beside the first need not wait for them.
    """

    first: tuple[Check, ...]
    untouched: tuple[Check, ...]
    others: tuple[Check, ...]

    @property
    def of_first_side(self) -> tuple[Check, ...]:
        """Those of the others that the first side runs while sides are beside it."""
        beside = self._beside
        return tuple(one for one in beside if one.needs.split is not Split.ANY_SIDE)

    @property
    def of_any_side(self) -> tuple[Check, ...]:
        """Those that whatever side is free takes: what a verdict needs, then what waits longest.

        The cheaper ones that an acceptance rests on come before the rest.
        """
        free = [one for one in self._beside if one.needs.split is Split.ANY_SIDE]

        def turn(check: Check) -> tuple[float, bool, bool]:
            decides = check.needs.when is When.DECISIVE
            needed = check.worth if decides and check.worth > Check.worth else 0.0
            return -needed, check.needs.when is not When.EARLY, not decides

        return tuple(sorted(free, key=turn))

    @property
    def after_sides(self) -> tuple[Check, ...]:
        """Those that run by themselves once the sides have ended."""
        return tuple(one for one in self.others if _is_after_sides(one))

    @property
    def _beside(self) -> tuple[Check, ...]:
        return tuple(one for one in self.others if not _is_after_sides(one))


def schedule(checks: Iterable[Check], profile: Profile, device: Device) -> Schedule:
    """Return the order of checks, which are given in the order of the registry.

    On a GPU those come last whose work begins beside the others. Before them, at `quick`, come
    those whose process none can follow, and after these the ones that take whatever process is
    there: each new process costs a CUDA context. What decides most comes before all others, by
    worth: time that ends in the middle of a trial ends what matters least.
    """
    quick, begins = profile is Profile.QUICK, device.on_gpu

    def turn(check: Check) -> tuple[bool, bool, bool, bool, float]:
        spoils = quick and check.needs.process is Process.OWN
        late = quick and check.needs.when is When.LATE
        last = begins and check.needs.when in _LAST
        decides = quick and check.needs.when is When.DECISIVE
        return last, late or spoils, spoils, late, -check.worth if decides else 0.0

    ordered = sorted(checks, key=turn)
    first = [one for one in ordered if one.needs.when is When.FIRST]
    untouched = [
        one
        for one in ordered
        if one not in first
        and quick
        and one.needs.process is Process.UNTOUCHED
        and one.needs.when is not When.LATE
    ]
    return Schedule(
        first=tuple(first),
        untouched=tuple(untouched),
        others=tuple(one for one in ordered if one not in first and one not in untouched),
    )


def begins_ahead(check: Check) -> bool:
    """Whether a check's scenarios, or what is made of them, may begin before its turn."""
    return check.needs.when in _LAST or check.needs.split is Split.AT_ONCE


def needs_new_process(check: Check, before: Check | None, profile: Profile) -> bool:
    """Whether a check needs another process than the one `before` it ran in; None: none ran.

    Groups of checks have processes of their own. At `quick` they share one, unless a check changes
    or reads what is the whole process's; what is late takes the process at hand, and what decides
    first that of the preparations, in which nothing else is judged. What the machine executes and
    what runs apart are in processes of their own.
    """
    needs, quick = check.needs, profile is Profile.QUICK
    if quick and needs.when in (When.FIRST, When.LATE, *_LAST):
        return False
    if before is None or not needs.process.takes_any or before.needs.process is Process.OWN:
        return True
    if quick and before.needs.when is When.FIRST:
        return True
    return not quick and (needs.group is Group.NONE or needs.group is not before.needs.group)


def _is_after_sides(check: Check) -> bool:
    return check.needs.alone or check.needs.when in (When.AFTER_SIDES, *_LAST)

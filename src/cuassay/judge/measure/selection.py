"""Which regimes a problem needs: the fewest that tell apart every mutant that all of them do.

The choice is made once a problem, on one small shape and under fixed seeds, and kept by the
problem's digest and cuassay's version: it holds names of regimes, never a seed. Trials then
run the chosen regimes first, beside those that their profile always runs (`inputs.plan`).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuassay import __version__
from cuassay.home import cache_dir
from cuassay.inputs.regimes import NUMERIC
from cuassay.model.digest import problem_digest
from cuassay.model.problem import Problem

if TYPE_CHECKING:
    from cuassay.judge.measure.kills import CaseKills

_FORMAT = 1
_KEYS = {"format", "regimes", "mutants", "killed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The regimes to run first, in order, the plain one at their head.

    `killed` of `mutants` are told apart by these as by all regimes.
    """

    regimes: tuple[str, ...]
    mutants: int
    killed: int


def cover(kills: Sequence[Collection[int]], costs: Sequence[int]) -> tuple[int, ...]:
    """Return positions of sets that together hold every element that any of them holds.

    Greedy: the set with most new elements next, the cheaper one of equals; then sets that the
    others make superfluous are dropped, the dearest first. In the order of choice.
    """
    left = set().union(*kills)
    chosen: list[int] = []
    while left:
        best = max(range(len(kills)), key=lambda i: (len(left & set(kills[i])), -costs[i], -i))
        chosen.append(best)
        left -= set(kills[best])
    for position in sorted(chosen, key=lambda i: -costs[i]):
        others = set().union(*(kills[i] for i in chosen if i != position))
        if set(kills[position]) <= others:
            chosen.remove(position)
    return tuple(chosen)


def covering(tried: Sequence[CaseKills], cost: Callable[[int], int]) -> tuple[int, ...]:
    """Return positions of cases that tell apart every mutant that all of `tried` do.

    The first case is always among them. A kill that may be luck of the seed counts only for
    mutants that no case tells apart with a margin.
    """
    if not tried:
        return ()
    surely = frozenset().union(*(t.surely_killed for t in tried))
    kills = [t.surely_killed | (frozenset(t.killed) - surely) for t in tried]
    rest = [found - kills[0] for found in kills[1:]]
    chosen = cover(rest, [cost(i) for i in range(1, len(tried))])
    return (0, *(i + 1 for i in chosen))


def read_selection(problem: Problem) -> Selection | None:
    """Return the kept selection of a problem; None where there is none that can be read."""
    try:
        found = json.loads(_path(problem).read_text(encoding="utf-8"))
        names = tuple(found["regimes"])
        known = {regime.name for regime in NUMERIC}
        if set(found) != _KEYS or found["format"] != _FORMAT or not set(names) <= known:
            return None
        return Selection(regimes=names, mutants=int(found["mutants"]), killed=int(found["killed"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def store(problem: Problem, selection: Selection) -> None:
    """Keep a selection for later trials; a folder that cannot be written costs only that."""
    path = _path(problem)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    content = {
        "format": _FORMAT,
        "regimes": list(selection.regimes),
        "mutants": selection.mutants,
        "killed": selection.killed,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _path(problem: Problem) -> Path:
    digest = problem.digest or problem_digest(problem)
    return cache_dir() / "power" / f"{digest}-{__version__}.json"

"""A search for failing inputs: Hypothesis draws recipes, the judge runs them, shares guide it.

A check yields scenarios and learns nothing of what came back; Hypothesis calls a function and
must hear at once. So the judge drives: a `SearchingCheck` says how one case is tried
(`on_case`) and judged (`judge`), the examination runs each searched case exactly as a proposed
one and answers with the share of the error budget that it used. Findings stay one-case
scenarios that replay without the search.

Two kinds of round alternate. Exploring, Hypothesis draws numbers that `inputs.recipes` turns into
recipes: independent ones, since its own mutations repeat sizes and fills. Climbing, it draws
changes to the best recipes so far and is told each share as its `target`. Shrinking is left to
`judge.diagnose.minimise`, which serves every check and knows tensors. The same root seed and the
same answers give the same recipes.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from cuassay.home import home
from cuassay.inputs.budget import budget_for
from cuassay.inputs.geometry import elements, least_sizes
from cuassay.inputs.planner import Planner
from cuassay.inputs.recipes import REACH, Change, change, sample
from cuassay.inputs.seeds import derive
from cuassay.model import serial
from cuassay.model.axes import resolve
from cuassay.model.device import Device
from cuassay.model.effort import Effort
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.case import Case

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEffort:
    """How long a search may take: seconds, rounds of exploring and climbing, their recipes.

    `elements` bounds the elements of inputs and outputs that the sizes of one recipe add to
    those at the least sizes: weights that no axis changes would leave no size to choose.
    """

    seconds: float
    rounds: int
    explore: int
    climb: int
    elements: int


_ISOLATED_PATIENCE = 20.0
_EXPLORED, _CLIMBED = 150, 50  # recipes of a round
_PARENTS = 5  # best recipes that climbing starts from
_ASPECTS, _CHANGES = 63, 4  # aspects are counted modulo their number; changes at once
_LARGEST_SHARE = 1e6  # Hypothesis climbs finite numbers only


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one searched case gave: the share of the budget used (None: not judged)."""

    share: float | None
    failed: bool


Ask = Callable[["Case"], Awaitable[Answer]]


class _Ended(BaseException):
    """Ends a search from inside the function that Hypothesis calls.

    A BaseException, so that Hypothesis takes it for no failure of the function, nor runs the
    recipe again to confirm it. `cause` is the fault that ended the search, if one did.
    """

    def __init__(self, cause: BaseException | None = None) -> None:
        self.cause = cause
        super().__init__()


@dataclass(slots=True, kw_only=True)
class _Search:
    ask: Ask
    planner: Planner
    effort: SearchEffort
    most_elements: int
    deadline_s: float
    has_room: Callable[[Case], bool]
    going: Callable[[], bool]
    known: dict[str, Answer] = field(default_factory=dict)
    best: list[tuple[float, Case]] = field(default_factory=list)
    held: list[Mapping[str, int]] = field(default_factory=list)  # sizes that have room
    refused: list[Mapping[str, int]] = field(default_factory=list)

    async def share(self, case: Case | None) -> float | None:
        """Return the share that a case used, asked once. Raises _Ended where all is over."""
        if time.perf_counter() >= self.deadline_s or not self.going():
            raise _Ended
        if case is None:
            return None
        key = serial.dumps(case)
        if key not in self.known:
            self.known[key] = await self._asked(case)
        return self.known[key].share

    async def _asked(self, case: Case) -> Answer:
        if not self._fits(case):
            return Answer(share=None, failed=False)
        try:
            answer = await self.ask(case)
        except BaseException as error:  # the judge's own; Hypothesis must not meddle with it
            raise _Ended(error) from None
        if answer.failed:
            self.known[serial.dumps(case)] = answer
            raise _Ended
        if answer.share is not None and math.isfinite(answer.share):
            self.best.append((answer.share, case))
            self.best.sort(key=lambda pair: -pair[0])
            del self.best[_PARENTS:]
        return answer

    def _fits(self, case: Case) -> bool:
        """Whether a case has room. A plan takes a while: smaller sizes need none."""
        if any(_within(case.axes, larger) for larger in self.held):
            return True
        if any(_within(smaller, case.axes) for smaller in self.refused):
            return False
        fits = self.has_room(case)
        (self.held if fits else self.refused).append(case.axes)
        return fits


def _within(smaller: Mapping[str, int], larger: Mapping[str, int]) -> bool:
    return all(size <= larger[name] for name, size in smaller.items())


def effort_for(profile: Profile, *, device: Device) -> SearchEffort | None:
    """Return the effort of a profile; None at `quick`, which does not search."""
    effort = Effort(profile)
    if not effort.search_rounds:
        return None
    return SearchEffort(
        seconds=effort.search_s,
        rounds=effort.search_rounds,
        explore=_EXPLORED,
        climb=_CLIMBED,
        elements=effort.search_elements[device.kind],
    )


async def search(
    trial: JudgeTrial,
    ask: Ask,
    *,
    effort: SearchEffort | None = None,
    going: Callable[[], bool] = lambda: True,
) -> int:
    """Search until a case fails or the effort is spent; return how many cases were asked.

    It ends too where it is not `going` on any more. What `ask` raises passes through. Does nothing
    where the profile searches nothing.
    """
    effort = effort or effort_for(trial.profile, device=trial.device)
    if effort is None:
        return 0
    importlib.import_module("hypothesis")  # takes a while, which is no time of the search
    seed = trial.seed("search")
    planner = Planner(
        problem=trial.problem,
        budget=budget_for(trial.profile, device=trial.device, memory_gib=trial.memory.gib),
        root_seed=seed,
    )
    # An audit's verdicts must not turn on how fast its lane is: there, rounds bound the search.
    patience = _ISOLATED_PATIENCE if trial.isolated else 1.0
    deadline_s = time.perf_counter() + effort.seconds * patience
    axes = trial.problem.workloads[0].axes
    least = least_sizes(trial.problem, resolve(trial.problem.axes, axes))
    one = _Search(
        ask=ask,
        planner=planner,
        effort=effort,
        most_elements=effort.elements + elements(trial.problem, least),
        deadline_s=deadline_s,
        has_room=trial.has_room,
        going=going,
    )
    try:
        for number in range(effort.rounds):
            await _explore(one, derive(seed, "explore", number))
            if one.best:
                await _climb(one, derive(seed, "climb", number))
    except _Ended as ended:
        if ended.cause is not None:
            raise ended.cause from None
    return len(one.known)


async def _explore(one: _Search, seed: int) -> None:
    """Ask independent recipes. Raises _Ended where the search is over."""
    from hypothesis import strategies as st

    def explored(number: int) -> None:
        share(sample(one.planner, number, max_elements=one.most_elements))

    share = _from_thread(one)
    await _driven(explored, st.integers(0, 1 << 60), count=one.effort.explore, seed=seed)


async def _climb(one: _Search, seed: int) -> None:
    """Ask changes of the best recipes, toward a larger share. Raises _Ended."""
    import hypothesis
    from hypothesis import strategies as st

    parents = [case for _, case in one.best]
    amounts = st.tuples(st.integers(0, _ASPECTS), st.integers(-REACH, REACH))
    drawn = st.tuples(st.integers(0, len(parents) - 1), st.lists(amounts, max_size=_CHANGES))

    def climbed(chosen: tuple[int, list[Change]]) -> None:
        parent, changes = chosen
        limit = one.most_elements
        used = share(change(one.planner, parents[parent], changes, max_elements=limit))
        if used is None:
            hypothesis.reject()
        if math.isfinite(used):
            hypothesis.target(min(used, _LARGEST_SHARE), label="share of the error budget")

    share = _from_thread(one)
    await _driven(climbed, drawn, count=one.effort.climb, seed=seed)


def _from_thread(one: _Search) -> Callable[[Case | None], float | None]:
    """Return what asks a case from the thread of Hypothesis, which waits for the answer.

    The judge thinks in its own thread alone.
    """
    loop = asyncio.get_running_loop()
    return lambda case: asyncio.run_coroutine_threadsafe(one.share(case), loop).result()


async def _driven(
    tried: Callable[[T], None], drawn: SearchStrategy[T], *, count: int, seed: int
) -> None:
    """Let Hypothesis call `tried` with what it draws, some `count` times, in its own thread."""
    # Hypothesis keeps what it reads of installed sources here, not in the working folder.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(home() / "hypothesis"))
    import hypothesis

    settings = hypothesis.settings(
        max_examples=count,
        database=None,  # failures are kept by judge.kept.failures, as cases
        deadline=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.target),
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
    )

    def called(value: T) -> None:
        tried(value)

    given = hypothesis.given(value=drawn)
    try:
        await asyncio.to_thread(hypothesis.seed(seed)(settings(given(called))))
    except (hypothesis.errors.Flaky, hypothesis.errors.Unsatisfiable):
        # Every case is asked once, so only Hypothesis's own bookkeeping can disagree; and a
        # round may draw no legal sizes at all. Neither says anything of the candidate.
        return

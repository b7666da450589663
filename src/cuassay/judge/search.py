"""A search for failing inputs: Hypothesis draws recipes, the judge runs them, shares guide it.

A check yields scenarios and learns nothing of what came back; Hypothesis calls a function and
must hear at once. So the judge drives: a check with `searches` says how one case is tried
(`on_case`) and judged (`judge`), the examination runs each searched case exactly as a proposed
one and answers with the share of the error budget that it used. Findings stay one-case
scenarios that replay without the search.

Rounds of some sixty recipes: one that only explores, then one whose second half climbs from
the best of it (`hypothesis.target`), and so on. Shrinking is left to `judge.minimise`, which
serves every check and knows tensors. Same root seed and same answers, same recipes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuassay.home import home
from cuassay.inputs.budget import budget_for
from cuassay.inputs.planner import Planner
from cuassay.inputs.seeds import derive
from cuassay.model import serial
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long a search may take: seconds, recipes a round, rounds, elements a recipe."""

    seconds: float
    recipes: int
    rounds: int
    elements: int


_CPU = {
    Profile.STANDARD: Effort(seconds=10.0, recipes=60, rounds=2, elements=1 << 15),
    Profile.DEEP: Effort(seconds=90.0, recipes=100, rounds=12, elements=1 << 16),
}
_CUDA = {
    Profile.STANDARD: Effort(seconds=10.0, recipes=60, rounds=2, elements=1 << 20),
    Profile.DEEP: Effort(seconds=90.0, recipes=100, rounds=12, elements=1 << 22),
}
_LARGEST_SHARE = 1e6  # Hypothesis climbs finite numbers only


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one searched case gave: the share of the budget used (None: not judged)."""

    share: float | None
    failed: bool


Ask = Callable[["Case"], Answer]


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
    deadline: float
    known: dict[str, Answer] = field(default_factory=dict)

    def check_time(self) -> None:
        """Raise _Ended where the time is over."""
        if time.perf_counter() >= self.deadline:
            raise _Ended

    def __call__(self, case: Case) -> Answer:
        """Return the answer to a case, asked once. Raises _Ended where the search is over."""
        self.check_time()
        key = serial.dumps(case)
        if key in self.known:
            return self.known[key]
        try:
            answer = self.ask(case)
        except BaseException as error:  # the judge's own; Hypothesis must not meddle with it
            raise _Ended(error) from None
        self.known[key] = answer
        if answer.failed:
            raise _Ended
        return answer


def effort_for(profile: Profile, *, device: str) -> Effort | None:
    """Return the effort of a profile; None at `quick`, which does not search."""
    return (_CUDA if device.startswith("cuda") else _CPU).get(profile)


def search(trial: JudgeTrial, ask: Ask, *, effort: Effort | None = None) -> int:
    """Search until a case fails or the effort is spent; return how many cases were asked.

    What `ask` raises passes through. Does nothing where the profile searches nothing.
    """
    effort = effort or effort_for(trial.profile, device=trial.device)
    if effort is None:
        return 0
    one = _Search(ask=ask, deadline=time.perf_counter() + effort.seconds)
    seed = trial.seed("search")
    planner = Planner(
        problem=trial.problem,
        budget=budget_for(trial.profile, device=trial.device),
        root_seed=seed,
    )
    try:
        for number in range(effort.rounds):
            own = derive(seed, "round", number)
            _round(planner, one, effort=effort, seed=own, climb=number % 2 == 1)
    except _Ended as ended:
        if ended.cause is not None:
            raise ended.cause from None
    return len(one.known)


def _round(planner: Planner, one: _Search, *, effort: Effort, seed: int, climb: bool) -> None:
    """Let Hypothesis draw one round of recipes. Raises _Ended where the search is over."""
    # Hypothesis keeps what it reads of installed sources here, not in the working folder.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(home() / "hypothesis"))
    import hypothesis

    from cuassay.inputs.recipes import recipes

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=effort.recipes,
        database=None,  # failures are kept by judge.failures, as cases
        deadline=None,
        phases=(hypothesis.Phase.generate, *((hypothesis.Phase.target,) if climb else ())),
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
    )
    @hypothesis.given(recipes(planner, max_elements=effort.elements))
    def tried(case: Case | None) -> None:
        if case is None:
            one.check_time()
            hypothesis.reject()
        answer = one(case)
        if climb and answer.share is not None and not math.isnan(answer.share):
            share = min(answer.share, _LARGEST_SHARE)
            hypothesis.target(share, label="share of the error budget")

    try:
        tried()
    except hypothesis.errors.Flaky:
        return  # cases are asked once, so only Hypothesis's own bookkeeping can disagree
    except hypothesis.errors.Unsatisfiable:
        return  # no legal sizes were drawn in this round

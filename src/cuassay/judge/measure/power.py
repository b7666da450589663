"""Power of the inputs used: how many broken versions of the reference they tell from it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.contract.memory import TRUTH_RUNS
from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements
from cuassay.judge.decide.benchmark_rule import affordable, benchmark_case
from cuassay.judge.measure.kills import MARGIN, CaseKills, all_mutants, try_case, try_cases
from cuassay.judge.measure.legal_search import SEARCH_SEED, search_cases
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.case import Case
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.turns import in_turns
from cuassay.model.verdict import Power, Profile
from cuassay.oracle.benchmark_rule import matched_ratio
from cuassay.oracle.mutants.detect import (
    Implementation,
    Mutant,
    Theirs,
    spread,
    theirs_accepts,
    unused,
)

if TYPE_CHECKING:
    import torch

_ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 29}  # of inputs and outputs, run once a mutant
_QUICK_ELEMENTS = 1 << 23  # `quick` answers in seconds: its mutants run on its smaller cases
_TILE = 32  # the least that kernels work on at once
_LEFT = 4  # of the mutants one part in so many is not told apart by the first case
PURPOSES = ("numeric", "small", "shapes", "ends", "hot", "arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A mutant that no case used tells apart; `killed_by` is a legal case that does.

    An empty `killed_by` means that the search ran out of time: `why` says so. It also says
    where the case does so only just. Under `accepted_by` the mutant is what a kernel may be.
    """

    number: int
    killed_by: str
    why: str = ""
    accepted_by: Precision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a set of cases tells apart. Mutants are known by their number.

    `equivalent` maps those that no legal input of the search tells apart to why.
    """

    mutants: dict[int, Mutant]
    cases: tuple[Case, ...]
    tried: tuple[CaseKills, ...]
    survivors: tuple[Survivor, ...]
    equivalent: dict[int, str]

    @property
    def killed(self) -> frozenset[int]:
        """The mutants that some case tells apart."""
        return frozenset().union(*(tried.killed for tried in self.tried))


def power_of_inputs(trial: JudgeTrial) -> Power | None:
    """Return how many mutants of the reference the trial's cheaper inputs can tell apart.

    Mutants that no legal input tells apart are left out. Of a heavy reference fewer are tried, on
    fewer cases. None where it cannot be mutated (it cannot be lifted), or takes too long.
    """
    cases = planned(trial)[: trial.effort.power_cases]
    if not cases:
        return None
    limit, runs = trial.effort.power_mutants, trial.runs_within(cases[0])
    if runs is not None:
        limit = min(limit, runs // 2)
        # The first case takes a run for each mutant and a truth for each family, another one a run
        # for each that is left, and truths of the least family and the widest.
        first = limit + TRUTH_RUNS * len(policy_of(trial.problem).families)
        more = limit // _LEFT + 2 * TRUTH_RUNS
        cases = cases[: 1 + max(0, runs - first) // more]
    if not limit:
        return None
    try:
        mutants = spread(all_mutants(trial, cases), limit)
    except CuassayError:
        return None
    found = measured(trial, cases, mutants, search_s=trial.effort.power_search_s)
    counted = {n: m for n, m in found.mutants.items() if n not in found.equivalent}
    theirs = benchmark_judge(trial, runs=len(counted))
    return Power(
        mutants=len(counted),
        killed=len(found.killed),
        survivors=tuple(_text(found.mutants[s.number], s) for s in found.survivors),
        benchmark_killed=None if theirs is None else len(killed_by_them(theirs, counted)),
    )


def _text(mutant: Mutant, survivor: Survivor) -> str:
    if survivor.accepted_by is not None:
        return f"{mutant.words}; the precision policy accepts it ({survivor.accepted_by.value})"
    shown_by = survivor.killed_by or mutant.shown_by
    return f"{mutant.words}; inputs that would show it: {shown_by}"


def measured(
    trial: JudgeTrial,
    cases: Sequence[Case],
    mutants: Sequence[Mutant],
    *,
    search_s: float,
    all_pairs: bool = False,
) -> Measured:
    """Run mutants on cases, then search legal inputs for what survives.

    With `all_pairs` every mutant that the first case leaves alive runs on every other case;
    else only until it is told apart.
    """
    numbered = dict(enumerate(mutants))
    first = try_case(trial, cases[0], numbered)
    left = {n: m for n, m in numbered.items() if n not in first.killed}
    others, _ = try_cases(trial, cases[1:], left, until_killed=not all_pairs)
    tried = (first, *others)
    ran = frozenset().union(*(t.ran for t in tried))
    killed = frozenset().union(*(t.killed for t in tried))
    inputs = [list(trial.inputs(case).values()) for case in cases[:2]]
    alive = {
        n: m
        for n, m in numbered.items()
        if n in ran - killed and not unused(trial.reference.call, m, inputs)
    }
    excused = {n: family for t in tried for n, family in t.excused.items() if n in alive}
    searching = {n: m for n, m in alive.items() if n not in excused}
    survivors, equivalent = searched(trial, searching, search_s=search_s)
    survivors += tuple(
        Survivor(number=n, killed_by="", why=f"accepted by {by.value}", accepted_by=by)
        for n, by in excused.items()
    )
    counted = {n: m for n, m in numbered.items() if n in killed or n in alive}
    return Measured(
        mutants=counted,
        cases=tuple(cases),
        tried=tried,
        survivors=survivors,
        equivalent=equivalent,
    )


def searched(
    trial: JudgeTrial, alive: dict[int, Mutant], *, search_s: float
) -> tuple[tuple[Survivor, ...], dict[int, str]]:
    """Search legal inputs that tell mutants apart; return survivors and equivalent mutants."""
    if not alive:
        return (), {}
    search = open_trial(
        trial.problem,
        trial.reference,
        profile=Profile.DEEP,
        device=trial.device,
        root_seed=SEARCH_SEED,
        gpu_memory_gib=trial.memory.gib,
    )
    deadline = time.monotonic() + search_s
    cases = filter(trial.has_room, search_cases(trial.problem, device=trial.device))
    tried, stopped = try_cases(search, cases, alive, until_killed=True, deadline=deadline)
    survivors, equivalent = [], {}
    for number in alive:
        by = next((t for t in tried if number in t.killed), None)
        if by is not None:
            share = by.killed[number]  # a kill near the limit may be luck of the seed
            near = "" if share >= MARGIN else f"only just, at {share:.2f} times what is allowed"
            survivors.append(Survivor(number=number, killed_by=by.case.label, why=near))
        elif stopped:
            why = f"the search stopped after {search_s:g} s, {len(tried)} cases"
            survivors.append(Survivor(number=number, killed_by="", why=why))
        else:
            differs = any(number in t.differs for t in tried)
            how = "within the achievable error" if differs else "the same numbers"
            equivalent[number] = f"{how} on each of {len(tried)} legal cases"
    return tuple(survivors), equivalent


def planned(trial: JudgeTrial, *, limit: int | None = None) -> list[Case]:
    """Return distinct cases of the trial small enough to be run once a mutant.

    One of each purpose comes first, so that every kind of input the trial used is represented.
    `limit` is the most elements of inputs and outputs; by default the device's. It doubles up
    to the device's where constant axes leave a purpose without a case.
    """
    most = min(limit or _most_elements(trial), _most_elements(trial))
    purposes = _by_purpose(trial, most)
    while not all(purposes.values()) and most < _most_elements(trial):
        most = min(2 * most, _most_elements(trial))
        purposes = _by_purpose(trial, most)
    found: list[Case] = []
    for case in in_turns(purposes.values()):
        if case not in found:
            found.append(case)
    return found


def _by_purpose(trial: JudgeTrial, most: int) -> dict[str, list[Case]]:
    """Return the legal cases of at most `most` elements of each purpose that has any case.

    Of shapes those come first that have the most axes with a whole tile and a part of one: no other
    tells what loses the last tile alone.
    """

    def without_tail(case: Case) -> int:
        sizes = (case.axes[axis.name] for axis in trial.problem.var_axes())
        return sum(size < _TILE or size % _TILE == 0 for size in sizes)

    found = {
        purpose: [
            case
            for case in trial.cases(purpose)
            if case.in_domain and elements(trial.problem, case.axes) <= most
        ]
        for purpose in PURPOSES
        if trial.cases(purpose)
    }
    return {
        purpose: sorted(cases, key=without_tail) if purpose == "shapes" else cases
        for purpose, cases in found.items()
    }


def _most_elements(trial: JudgeTrial) -> int:
    most = _ELEMENTS[trial.device.kind]
    return min(most, _QUICK_ELEMENTS) if trial.profile is Profile.QUICK else most


def killed_by_them(theirs: Theirs, mutants: dict[int, Mutant]) -> frozenset[int]:
    """Return the mutants that the benchmark's own inputs and rule reject."""
    return frozenset(n for n, m in mutants.items() if not theirs_accepts(theirs, m))


def benchmark_judge(trial: JudgeTrial, *, limit: int | None = None, runs: int = 1) -> Theirs | None:
    """Return whether the benchmark's own inputs and rule accept an implementation.

    On the largest workload of at most `limit` elements, by default as many as can be run once
    a mutant, for which a run in float64 has room, and `runs` of them time; None where none is
    small enough, or nobody stated a rule.
    """
    limit = limit or _most_elements(trial)
    pairs = [(workload, benchmark_case(trial, workload)) for workload in affordable(trial)]
    fitting = [
        pair
        for pair in pairs
        if elements(trial.problem, pair[1].axes) <= limit
        and trial.has_room(pair[1])
        and runs <= (trial.runs_within(pair[1]) or runs)
    ]
    if not fitting:
        return None
    workload, case = fitting[0]
    tolerance = workload.tolerance
    if tolerance is None:
        return None
    try:
        inputs = list(trial.inputs(case).values())
        expected: tuple[torch.Tensor, ...] = trial.truths.as_written(inputs)
    except CuassayError:
        return None

    def accepts(implementation: Implementation) -> bool:
        pairs = zip(implementation(inputs), expected, strict=True)
        return all(matched_ratio(got, want, tolerance)[0] for got, want in pairs)

    return accepts

"""Choose the regimes of a problem: run every mutant on every regime, take a smallest cover."""

from __future__ import annotations

from cuassay.inputs.geometry import elements
from cuassay.judge.measure.kills import all_mutants, try_case, try_cases
from cuassay.judge.measure.legal_search import SEARCH_SEED, planner_for, regime_cases
from cuassay.judge.measure.selection import Selection, covering
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.verdict import Profile


def choose(trial: JudgeTrial) -> Selection:
    """Return the smallest set of regimes that tells apart all that every regime together does.

    Runs on one small shape and on fixed seeds, so that it may be kept and shared. The plain
    regime comes first, whatever it tells apart. Raises ReferenceError_ where the reference
    fails on its plainest case.
    """
    own = open_trial(
        trial.problem,
        trial.reference,
        profile=Profile.DEEP,
        device=trial.device,
        root_seed=SEARCH_SEED,
        gpu_memory_gib=trial.memory.gib,
    )
    planned = regime_cases(planner_for(trial.problem, device=trial.device))
    cases = {name: case for name, case in planned.items() if trial.has_room(case)}
    names, listed = list(cases), list(cases.values())
    mutants = dict(enumerate(all_mutants(own, listed)))
    first = try_case(own, listed[0], mutants)
    left = {n: m for n, m in mutants.items() if n not in first.killed}
    others, _ = try_cases(own, listed[1:], left)
    tried = [first, *others]
    chosen = covering(tried, lambda i: elements(own.problem, tried[i].case.axes))
    killed = frozenset().union(*(t.killed for t in tried))
    return Selection(
        regimes=tuple(names[i] for i in chosen), mutants=len(mutants), killed=len(killed)
    )

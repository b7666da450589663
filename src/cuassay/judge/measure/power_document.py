"""`cuassay problem power`: what the inputs of a problem can tell apart, as one JSON document."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cuassay.errors import CannotJudgeError
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.inputs.geometry import elements
from cuassay.inputs.seeds import new_root
from cuassay.judge.environment import choose_device
from cuassay.judge.measure import selection
from cuassay.judge.measure.choose import choose
from cuassay.judge.measure.kills import all_mutants
from cuassay.judge.measure.power import Measured, benchmark_judge, killed_by_them, measured, planned
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.events import Event, Progress
from cuassay.model.jobs import PowerJob
from cuassay.oracle.mutants.detect import Mutant
from cuassay.oracle.mutants.kinds import KINDS

if TYPE_CHECKING:
    from cuassay.judge.measure.selection import Selection

_ELEMENTS = {"cpu": 1 << 19, "cuda": 1 << 24}  # every mutant runs on every such case

Row = dict[str, Any]


def power_document(job: PowerJob, emit: Callable[[Event], None]) -> Row:
    """Measure a problem's inputs and return the document; keep the selection of regimes.

    Raises ProblemError or UsageError for the problem, CannotJudgeError where no case is small
    enough or the reference itself fails.
    """
    notes: list[str] = []
    problem = load_problem(job.problem, strict=job.strict, notes=notes)
    seed = new_root() if job.seed is None else job.seed
    trial = open_trial(
        problem,
        load_reference(problem),
        profile=job.profile,
        device=choose_device(job.device),
        root_seed=seed,
        isolated=job.isolated,
    )
    for note in notes:
        emit(Progress(text=note))
    started = time.perf_counter()
    emit(Progress(text="the fewest regimes at equal power"))
    chosen = choose(trial)
    if not job.isolated:
        selection.store(problem, chosen)  # the trial plans with it from here on
    found, theirs = measure_all(trial, emit)
    document = described(trial, found, theirs, chosen)
    return document | {"seed": seed, "time_s": time.perf_counter() - started}


def measure_all(
    trial: JudgeTrial, emit: Callable[[Event], None]
) -> tuple[Measured, frozenset[int] | None]:
    """Run every mutant on every affordable case of the trial, and on the benchmark's own.

    Raises CannotJudgeError where no planned case is small enough.
    """
    limit = _ELEMENTS[trial.device.kind]
    cases = planned(trial, limit=limit)
    if not cases:
        raise CannotJudgeError(
            f"no planned case of '{trial.problem.name}' has at most {limit} elements: give the "
            "problem a smaller workload"
        )
    mutants = all_mutants(trial, cases)
    emit(Progress(text=f"{len(mutants)} broken versions on {len(cases)} cases"))
    found = measured(trial, cases, mutants, search_s=trial.effort.power_document_s, all_pairs=True)
    emit(Progress(text="the benchmark's own inputs and rule"))
    theirs = benchmark_judge(trial)
    return found, None if theirs is None else killed_by_them(theirs, found.mutants)


def described(
    trial: JudgeTrial, found: Measured, theirs: frozenset[int] | None, chosen: Selection
) -> Row:
    """Return the document of a measurement. `theirs` are the mutants that their rule rejects."""
    covering = selection.covering(
        found.tried, lambda i: elements(trial.problem, found.tried[i].case.axes)
    )
    labels = [found.tried[i].case.label for i in covering]
    told = found.mutants.keys() - found.equivalent.keys()
    survivors: list[Row] = []
    for s in found.survivors:
        named = _named(found.mutants[s.number])
        survivors.append(named | {"killed_by": s.killed_by, "why": s.why})
    rows = []
    for kind, about in KINDS.items():
        numbers = {n for n, m in found.mutants.items() if m.kind == kind}
        if numbers:
            row = {"kind": kind, "words": about.words, "classes": list(about.classes)}
            rows.append(row | _counts(found, theirs, numbers))
    # A row a failure class; a mutant counts for each class of its kind
    grouped: dict[str, set[int]] = {}
    for number, mutant in found.mutants.items():
        for code in mutant.classes:
            grouped.setdefault(code, set()).add(number)
    ordered = sorted(grouped, key=lambda code: (code[0], int(code[1:])))
    by_search = {survivor.number: survivor for survivor in found.survivors}
    listed = []
    for place in sorted(told - theirs) if theirs is not None else ():
        label = next((t.case.label for t in found.tried if place in t.killed), "")
        left = by_search.get(place)
        why = left.why if left and not label else ""
        label = label or (left.killed_by if left else "")
        listed.append(_named(found.mutants[place]) | {"killed_by": label, "why": why})
    return {
        "problem": trial.problem.name,
        "profile": trial.profile.value,
        "device": trial.device,
        "mutants": len(found.mutants),
        "equivalent": len(found.equivalent),
        "killed_ours": len(found.killed),
        "killed_theirs": None if theirs is None else len(theirs & told),
        "survivors": survivors,
        "survivors_theirs": listed,
        "equivalents": [_named(found.mutants[n]) | {"why": w} for n, w in found.equivalent.items()],
        "by_kind": rows,
        "by_class": [{"class": code} | _counts(found, theirs, grouped[code]) for code in ordered],
        "cases": {"full": len(found.cases), "covering": len(labels), "labels": labels},
        "regimes": {
            "chosen": list(chosen.regimes),
            "mutants": chosen.mutants,
            "killed": chosen.killed,
        },
    }


def _named(mutant: Mutant) -> Row:
    return {
        "words": mutant.words,
        "kind": mutant.kind,
        "class": mutant.classes[0],
        "classes": list(mutant.classes),
        "shown_by": mutant.shown_by,
    }


def _counts(found: Measured, theirs: frozenset[int] | None, numbers: set[int]) -> Row:
    told = numbers - found.equivalent.keys()
    return {
        "mutants": len(numbers),
        "equivalent": len(numbers) - len(told),
        "killed_ours": len(told & found.killed),
        "killed_theirs": None if theirs is None else len(told & theirs),
    }

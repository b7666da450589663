"""Which tactics a candidate has for calls at some sizes: asked in its own process."""

from __future__ import annotations

import json
from typing import Any

from cuassay import build
from cuassay.checks.endings.findings import first_raised, inconclusive_reason, termination_finding
from cuassay.checks.kernels.facts import cleaned_text
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats import tactics as formats
from cuassay.formats.execute import load_reference
from cuassay.inputs.geometry import elements
from cuassay.judge.environment import choose_device
from cuassay.judge.run.executor import Executor
from cuassay.judge.trial import open_trial
from cuassay.model.axes import resolve
from cuassay.model.jobs import TacticsJob
from cuassay.model.scenario import ReadResult, Release, Scenario, Step, call_steps
from cuassay.model.trace import done_steps
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.nursery import Nursery

_ELEMENTS = 1 << 25  # of the tensors of a call that is made only to ask for its tactics
_LISTED = 16  # sizes of the problem's own that are asked about
_NAME = 200


def tactics(job: TacticsJob, nursery: Nursery | None) -> dict[str, Any]:
    """Return the document: `kind`, `static`, and `calls`, each with `sizes` and `names`.

    What is in it is the word of the candidate's process; sizes with too large tensors are left
    out. Raises UsageError where the candidate has no tactics, and CannotJudgeError where it gives
    no answer.
    """
    problem = load_problem(job.problem, strict=job.strict)
    candidate = formats.listing(load_candidate(job.candidate, problem, strict=job.strict))
    device = choose_device(job.device)
    build.prepare(candidate, device=device)
    trial = open_trial(
        problem,
        load_reference(problem),
        profile=Profile.QUICK,
        device=device,
        root_seed=job.seed or 0,
        isolated=True,
    )
    small = trial.cases("small")[0]
    # The smallest sizes, and those that the problem lists
    listed = [w.axes for w in trial.problem.workloads if not w.recorded][:_LISTED]
    own = [{a.name: small.axes[a.name] for a in trial.problem.var_axes()}, *map(dict, listed)]
    wanted = job.sizes or {str(sorted(bound.items())): bound for bound in own}.values()
    every = [resolve(trial.problem.axes, bound) for bound in wanted]
    sizes = [one for one in every if elements(trial.problem, one) <= _ELEMENTS]
    steps: list[Step] = []
    for number in range(len(sizes)):
        slot, result = f"a{number}", f"r{number}"
        steps += [
            *call_steps(slot, number, result),
            Release(name=slot),
            Release(name=result),
        ]
    scenario = Scenario(
        label="listing the tactics",
        cases=tuple(placed(small, one) for one in sizes),
        steps=tuple(steps),
    )
    given = nursery if nursery and nursery.device == device else None
    with Executor(trial, candidate, device=device, nursery=given) as runner:
        run = runner(scenario)
        raised = first_raised(run)
        ended = termination_finding(scenario, run, problem=problem)
        why = inconclusive_reason(run) or (ended.message if ended else "")
        if raised is not None:
            why = f"{raised.exception}: {raised.message}"
        if why:
            raise CannotJudgeError(
                f"the kernel does not list its tactics: {cleaned_text(why, 600)}"
            )
        told = []
        for _, record in done_steps(scenario, run.result, ReadResult):
            try:
                data = json.loads(bytes(run.tensor(record.items[0]).cpu().numpy()))
                told.append({name: data[name] for name in ("kind", "static", "names")})
            except (IndexError, KeyError, TypeError, ValueError) as error:
                raise CannotJudgeError(
                    f"the kernel's process does not list tactics in JSON ({type(error).__name__})"
                ) from None
    if not told or not told[0]["kind"]:
        raise UsageError(
            f"'{candidate.name}' has no tactics: expected a Triton autotuner with several "
            "configurations in its files, an entry with get_valid_tactics and forward, one with "
            "configs and bind, or a function with an attribute `tactics` that takes `tactic=`; "
            "name the entry as FILE.py::NAME"
        )
    free = [axis.name for axis in trial.problem.var_axes()]
    return {
        "kind": cleaned_text(str(told[0]["kind"]), 40),
        "static": told[0]["static"] is True,
        "calls": [
            {
                "sizes": {name: bound[name] for name in free},
                "names": [cleaned_text(str(name), _NAME) for name in one["names"]],
            }
            for bound, one in zip(sizes, told, strict=True)
        ],
    }

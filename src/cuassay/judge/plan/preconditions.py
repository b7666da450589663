"""Before any kernel runs: some workload is legal, and the problem's own generator works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuassay.errors import ProblemError
from cuassay.inputs.constraints import constraint_holds
from cuassay.inputs.planner import has_custom_source
from cuassay.judge.decide.benchmark_rule import affordable
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.problem import ScalarSource

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial

_LISTED = 3  # workloads named in a message


def check_constraints(trial: JudgeTrial) -> None:
    """Raise ProblemError where no workload keeps all of the problem's own constraints.

    A single one that breaks a constraint is left out of what is judged (inputs.planner);
    where all do, every case would lie outside the domain.
    """
    problem = trial.problem
    broken: list[str] = []
    for workload in problem.workloads:
        sizes = resolve(problem.axes, workload.axes)
        rules = [rule for rule in problem.constraints if constraint_holds(rule, sizes) is False]
        if not rules:
            return
        bound = ", ".join(f"{axis.name} = {sizes[axis.name]}" for axis in problem.var_axes())
        broken.append(f"'{workload.id}' ({bound}) breaks '{rules[0]}'")
    if broken:
        raise ProblemError(
            f"problem '{problem.name}': no workload keeps its constraints: "
            f"{'; '.join(broken[:_LISTED])}; correct the constraints or the workloads"
        )


def generate_once(trial: JudgeTrial) -> None:
    """Run the generator on the smallest workload, where workloads take their inputs from it.

    Smaller where that has no room.

    What inputs seemed to be and the generator contradicts is given up.

    One that raises, or that leaves a domain which the problem states, ends the trial with its
    message; met inside a check it would leave no more than that case undecided. Raises
    ReferenceError_.
    """
    trial.planned.learning.uses()
    smallest = affordable(trial)[-1]
    if not has_custom_source(smallest):
        return
    case = Case(
        label="the problem's own generator",
        axes=resolve(trial.problem.axes, smallest.axes),
        scalars={n: s.value for n, s in smallest.sources.items() if isinstance(s, ScalarSource)},
        seed=trial.seed("generator"),
        generator=True,
    )
    made = trial.planned.to_make(case)
    if made is not None:
        trial.planned.learning.values(made, again_seed=trial.seed("generator", "again"))

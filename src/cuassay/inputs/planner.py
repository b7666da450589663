"""What every purpose of a plan shares: the problem, the budget, secret seeds, making a case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuassay.errors import ProblemError
from cuassay.inputs.budget import Budget
from cuassay.inputs.geometry import (
    elements,
    fitted_sizes,
    legal,
    shrunk_sizes,
    tensor_inputs,
    workload_sizes,
)
from cuassay.inputs.named_sizes import NamedSize
from cuassay.inputs.regimes import Regime, fills_for, scalars_for
from cuassay.inputs.seeds import derive
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Opaque
from cuassay.model.problem import CustomSource, Problem, Scalar, Workload

GatesOf: TypeAlias = Callable[[Case], Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """A problem, a budget and a root seed; `first` names numeric regimes to run before others.

    `reduced` names reduction axes that the problem does not state, `named` sizes that the
    candidate's sources speak of, `values` those that they compare elements with. `is_affordable`
    says whether a call at some sizes may be judged, `gates` how far the reference's gates are
    closed in a case: each one's most open and most closed element.
    """

    problem: Problem
    budget: Budget
    root_seed: int
    first: tuple[str, ...] = ()
    reduced: tuple[str, ...] = ()
    named: tuple[NamedSize, ...] = ()
    values: tuple[float, ...] = ()
    is_affordable: Callable[[Mapping[str, int]], bool] = lambda _: True
    gates: GatesOf = lambda _: ()

    def case(
        self,
        label: str,
        sizes: Mapping[str, int],
        regime: Regime,
        *,
        workload: Workload | None = None,
        scalars: Mapping[str, Scalar] | None = None,
        seed_path: tuple[object, ...] = (),
        in_domain: bool = True,
    ) -> Case:
        """Return a case of `regime`; its seed derives from the label unless a path is given."""
        seed = derive(self.root_seed, *(seed_path or (label,)))
        values = scalars_for(self.problem, workload, seed=seed, usual=regime.usual_scalars)
        return Case(
            label=label,
            axes=dict(sizes),
            fills=self.fills(regime),
            scalars=values if scalars is None else dict(scalars),
            seed=seed,
            generator=self.needs_generator,
            in_domain=in_domain,
        )

    def fills(self, regime: Regime) -> dict[str, Fill]:
        """Return the regime's fills of all inputs that may be filled freely."""
        return fills_for(self.problem, regime)

    @property
    def needs_generator(self) -> bool:
        """Whether some input has legal values that only the problem's generator knows."""
        if self.problem.reference.generator is None:
            return False
        return any(isinstance(spec.domain, Opaque) for spec in tensor_inputs(self.problem))

    @property
    def first_workload(self) -> Workload | None:
        """The first workload, whose scalars count as usual."""
        return self.problem.workloads[0] if self.problem.workloads else None

    def workloads(self) -> list[tuple[Workload, dict[str, int]]]:
        """Return the workloads and their sizes, fewest elements first."""
        if not self.problem.workloads:
            raise ProblemError(f"problem '{self.problem.name}' has no workload; give at least one")
        pairs = [(each, workload_sizes(self.problem, each)) for each in self.problem.workloads]
        return sorted(pairs, key=lambda pair: elements(self.problem, pair[1]))

    def few(self, elements_wished: int) -> dict[str, int]:
        """Return the sizes of the smallest workload, cut down to as many elements.

        What a module is built with stays as listed while numeric cases may be as large: of an
        operator of some hundred megabytes `numeric` judges one call so, and each further one would
        take as long. A kernel that follows no other sizes has none of these axes to cut.
        """
        problem, (_, listed) = self.problem, self.workloads()[0]
        kept = fitted_sizes(problem, listed, budget=elements_wished, keep=problem.built)
        if elements(problem, kept) <= self.budget.numeric_elements:
            return kept
        return fitted_sizes(problem, listed, budget=elements_wished)

    def fitting(self, budget_elements: int, count: int) -> list[tuple[Workload, dict[str, int]]]:
        """Return up to `count` workloads within the budget, the largest first.

        With a count of 2 that is the largest and the smallest that fit. Where none fits,
        the smallest is cut down along its longest axes.
        """
        ordered = self.workloads()
        fits = [pair for pair in ordered if elements(self.problem, pair[1]) <= budget_elements]
        fits = [pair for pair in fits if legal(self.problem, pair[1])] or fits
        if not fits:
            workload, sizes = ordered[0]
            cut = fitted_sizes(self.problem, sizes, budget=budget_elements, floor=16)
            return [
                (
                    workload,
                    shrunk_sizes(self.problem, cut, small_enough=self.is_affordable, floor=3),
                )
            ]
        # `count` positions in 0..total-1, first and last included, evenly spread.
        total = len(fits)
        if total <= count:
            picked = list(range(total))
        elif count == 1:
            picked = [0]
        else:
            picked = [round(step * (total - 1) / (count - 1)) for step in range(count)]
        return [fits[-1 - position] for position in picked]


def has_custom_source(workload: Workload) -> bool:
    """Return whether any input of the workload comes from the problem's generator."""
    return any(isinstance(source, CustomSource) for source in workload.sources.values())

"""What the checks of production conditions share: a plain call first, then the condition."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from cuassay.checks.base import Trial
from cuassay.checks.numeric.common import message, where, worst_statistic
from cuassay.checks.state.answers import reseeded
from cuassay.model.case import Case
from cuassay.model.outcome import Where
from cuassay.model.problem import ScalarSpec

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison


def on_cpu(trial: Trial) -> bool:
    """Whether the trial runs where there are no streams, graphs or multiprocessors."""
    return not trial.device.on_gpu


def with_scalars(trial: Trial, case: Case) -> Case:
    """Return the case with every scalar written out, so that other seeds keep them."""
    inputs = trial.inputs(case)
    scalars = {
        spec.name: inputs[spec.name]
        for spec in trial.problem.inputs
        if isinstance(spec, ScalarSpec)
    }
    return dataclasses.replace(case, scalars={**scalars, **case.scalars})  # type: ignore[dict-item]


def other_values(trial: Trial, case: Case, count: int, *, purpose: str) -> tuple[Case, ...]:
    """Return `count` cases of the same sizes and scalars with other values in every tensor."""
    return tuple(
        reseeded(
            case,
            label=f"{case.label}, other values {number + 1}",
            seed=trial.seed(purpose, "other", number),
        )
        for number in range(count)
    )


def measured(found: Comparison, case: Case) -> dict[str, Any]:
    """Return the fields of a finding that say by how much a comparison failed, and where."""
    worst = worst_statistic(found)
    place = where(found, case, worst) if not found.mismatch else Where(axes=dict(case.axes))
    return {
        "measured": worst.value if worst else None,
        "allowed": worst.limit if worst else None,
        "where": place,
        "details": (("against truth", message(found, worst)),),
    }

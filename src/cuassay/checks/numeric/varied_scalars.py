"""Every scalar argument at another value than the usual one, as one case."""

from __future__ import annotations

import dataclasses

from cuassay.checks.base import Trial
from cuassay.checks.interface.inputs_used import pairs_of
from cuassay.errors import CannotJudgeError
from cuassay.model.case import Case
from cuassay.model.problem import STATE_SOURCE, Scalar


def varied_scalars(trial: Trial, case: Case) -> Case:
    """Return the case with each scalar that may be moved alone at its other value.

    Where the reference refuses them together, with the first of them that it takes alone; the
    case itself where there is none.
    """
    moved: dict[str, Scalar] = {}
    for _, after in pairs_of(trial):
        if after.in_domain:
            for name, value in after.scalars.items():
                if name != STATE_SOURCE and value != case.scalars.get(name):
                    moved.setdefault(name, value)
    if not moved:
        return case
    for chosen in (moved, *({name: value} for name, value in moved.items())):
        other = dataclasses.replace(
            case, label=f"{case.label}, other scalars", scalars={**case.scalars, **chosen}
        )
        try:
            trial.moves(case, other)
        except CannotJudgeError:
            continue
        return other
    return case

"""Which parts of a module's first state are placeholders for what is loaded later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuassay.checks.base import Trial
from cuassay.errors import LiftError, ReferenceError_
from cuassay.model.case import Case

if TYPE_CHECKING:
    import torch


def placeholders(trial: Trial, case: Case) -> frozenset[str]:
    """Return the parts of the state whose first values mean nothing to the reference itself.

    Those that its constructor leaves unwritten; and where its output with its first state is one
    constant, or not finite at all, those that are all zeros.
    """
    import torch

    found = set(trial.problem.placeholders)
    inputs = trial.inputs(case)
    # Compared, for torch has no `any` of 8-bit floats on a GPU.
    zeros = {
        name
        for name in trial.problem.state
        if isinstance(one := inputs[name], torch.Tensor)
        and one.numel() > 1
        and not bool((one != torch.zeros_like(one)).any())
    }
    if zeros - found:
        try:
            shown = trial.exact(case)
        except (LiftError, ReferenceError_):
            return frozenset(found)
        if all(map(_is_degenerate, shown)):
            found |= zeros
    return frozenset(found)


def _is_degenerate(output: torch.Tensor) -> bool:
    """Whether an output shows nothing of what it is computed from: a constant, or no number."""
    flat = output.reshape(-1)
    if output.is_floating_point():
        flat = flat[flat.isfinite()]
    return bool((flat == flat[:1]).all())

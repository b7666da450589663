"""Cases and inputs that real loops make, from the distribution that has the loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from cuassay.parts import Part, find_part

if TYPE_CHECKING:
    import torch

    from cuassay.model.case import Case, LoopState
    from cuassay.model.device import Device
    from cuassay.model.problem import Problem, Scalar
    from cuassay.model.verdict import Profile


class States(Protocol):
    """What a kernel's site sees in a loop that is run again up to a step."""

    def plan(
        self, problem: Problem, kind: str, *, profile: Profile, seed: int, device: Device
    ) -> list[Case]:
        """Return cases with the states of a loop of a kind (training or decoding)."""

    def inputs(
        self, problem: Problem, state: LoopState, device: Device
    ) -> Mapping[str, torch.Tensor | Scalar]:
        """Return fresh inputs of a state, in the order of the problem's inputs."""


def loop_states() -> States:
    """Return the states of loops: a second of imports, which few trials need.

    Raises MissingToolError where the loops are not installed.
    """
    states: States = find_part(Part.LOOP_STATES)
    return states

"""What the distributions beside this one bring, found by entry point.

`cuassay-loops`, `cuassay-guard`, `cuassay-adapters` and `cuassay-attest` are installed with the
extras `loops`, `guard`, `adapters` and `attest`. Nothing of the gate imports them: it asks here for
a part, and says what to install where the part is absent.
"""

from __future__ import annotations

import enum
import functools
from importlib import metadata
from typing import Any

from cuassay.errors import missing_extra

_GROUP = "cuassay.parts"


class Part(enum.Enum):
    """A part, by the name of its entry point in the group `cuassay.parts`."""

    LOOPS = "loops"  # the package that `cuassay.loops` is
    LOOP_VERB = "loop-verb"  # click.Command `cuassay loop`
    LOOP_JOBS = "loop-jobs"  # run_loop(job, emit, nursery) -> its report as JSON
    LOOP_STATES = "loop-states"  # judge.plan.states.States
    GUARD = "guard"  # the package that `cuassay.guard` is
    GUARD_VERB = "guard-verb"  # click.Command `cuassay guard`
    CAPSULES = "capsules"  # replay_capsule(where, ...) -> exit code
    ADAPTERS = "adapters"  # the package that `cuassay.adapters` is
    CERTIFICATE_VERB = "certificate-verb"  # click.Command `cuassay certificate`

    @property
    def extra(self) -> str:
        """The extra of cuassay that installs the part."""
        match self:
            case Part.LOOPS | Part.LOOP_VERB | Part.LOOP_JOBS | Part.LOOP_STATES:
                return "loops"
            case Part.GUARD | Part.GUARD_VERB | Part.CAPSULES:
                return "guard"
            case Part.ADAPTERS:
                return "adapters"
            case Part.CERTIFICATE_VERB:
                return "attest"


@functools.cache
def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=_GROUP)}


def is_installed(part: Part) -> bool:
    """Whether a distribution brings the part; nothing of it is imported."""
    return part.value in _entry_points()


def find_part(part: Part) -> Any:
    """Return what a distribution brings. Raises MissingToolError with the line that installs it."""
    if not is_installed(part):
        raise missing_extra(f"cuassay-{part.extra}", part.extra)
    return _entry_points()[part.value].load()

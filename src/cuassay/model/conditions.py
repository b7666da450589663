"""The conditions of use that an acceptance can be held to."""

from __future__ import annotations

from collections.abc import Iterable

from cuassay.errors import UnknownNameError
from cuassay.model.proofs import Property

UNDECIDED = "undecided"  # what an acceptance rests on, where a check of it could not tell
# What a finding's condition can be about: the keys that checks put before the colon.
CONDITIONS = (
    "aliasing",
    "autocast",
    "autograd",
    "batch-invariant",
    "benchmark",
    "compile",
    "configurations",
    "consistent",
    "deterministic",
    "devices",
    "evaluation-mode",
    "graph-scalars",
    "graphs",
    "groups",
    "initial-values",
    "large-tensors",
    "launches",
    "layouts",
    "loaded-state",
    "magnitudes",
    "non-finite",
    "order",
    "own-kernels",
    "own-problem",
    "padding",
    "power",
    "precision",
    "process-state",
    "read-only-inputs",
    "resources",
    "shapes",
    "sizes",
    "streams",
    "structure",
    "threads",
    "training-mode",
    UNDECIDED,
    "unreached",
    "workloads",
)
# True of the reference as well, and still something that callers have to know.
STANDING = ("graph-scalars",)


# What `cuassay prove` can show, as `--require` names it.
PROOFS = {f"proof:{what}": what for what in Property}


def wanted_proofs(require: Iterable[str]) -> tuple[Property, ...]:
    """Return the properties that `--require` wants proved."""
    return tuple(PROOFS[name] for name in require if name in PROOFS)


def required(names: Iterable[str], *, option: str = "require") -> tuple[str, ...]:
    """Return the names once each. Raises UnknownNameError for one that no check covers."""
    found = tuple(dict.fromkeys(names))
    known = (*CONDITIONS, *PROOFS)
    for name in found:
        if name not in known:
            raise UnknownNameError(
                f"condition in {option}", name, known, hint="No check covers any other."
            )
    return found

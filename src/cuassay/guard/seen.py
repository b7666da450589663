"""What a guard has seen in production, as data: for the status file and for re-certification."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cuassay.guard import screen
from cuassay.guard.signature import Form

if TYPE_CHECKING:
    from cuassay.guard.watch import Watch

_MOST = 64  # signatures that are written down, the latest ones


def seen(watch: Watch) -> dict[str, Any]:
    """Return who the kernel is, what it computes, and the calls that were seen.

    `absmax` of each call belongs to its tensors in order: the largest finite magnitude in any
    sampled call of that signature. Names and values of arguments are not kept, but for numbers.
    """
    entries = list(watch.entries.values())[-_MOST:]
    trusted = watch.trusted
    first = len(screen.SKETCH)
    return {
        "source": watch.source,
        "problem": trusted.where.problem if trusted.where else "",
        "parameters": _parameters(trusted.call),
        "calls": [
            {
                "signature": entry.text,
                "arguments": [asdict(form) for form in entry.forms],
                "absmax": entry.range.seen[first:],
                "nonfinite": bool(entry.range.seen[1:2] and entry.range.seen[1] > 0),
                "state": entry.breaker.state.value,
            }
            for entry in entries
        ],
    }


def _parameters(call: Any) -> list[str]:
    try:
        return list(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return []


def named(forms: Sequence[dict[str, Any]], parameters: Sequence[str]) -> dict[str, Form]:
    """Return the arguments of a recorded call by parameter."""
    found = {}
    for place, form in enumerate(forms):
        name = form["name"] or (parameters[place] if place < len(parameters) else str(place))
        found[name] = Form(**{**form, "shape": tuple(form["shape"])})
    return found

"""What a guard has seen in production, as data: for the status file and for re-certification."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cuassay_guard.sampled import screen

if TYPE_CHECKING:
    from cuassay_guard.watch import Watch

MOST = 64  # signatures that are written down, the latest ones


def seen(watch: Watch) -> dict[str, Any]:
    """Return who the kernel is, what it computes, and the calls that were seen.

    `absmax` of each call belongs to its tensors in order: the largest finite magnitude in any
    sampled call of that signature. Names and values of arguments are not kept, but for numbers.
    """
    entries = list(watch.entries.values())[-MOST:]
    trusted = watch.trusted
    first = len(screen.SKETCH)
    try:
        parameters = list(inspect.signature(trusted.call).parameters)
    except (TypeError, ValueError):
        parameters = []
    return {
        "source": watch.source,
        "problem": trusted.where.problem if trusted.where else "",
        "parameters": parameters,
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

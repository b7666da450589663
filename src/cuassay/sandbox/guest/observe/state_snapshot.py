"""The process-wide state as names and texts, read in any process: see `process_state`.

Imports nothing but the readings, so that a process that holds nothing of this package can take
it at its end, from outside.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress

from cuassay.sandbox.guest.observe import process_probes

TEXT_MOST = 160  # characters kept of a value
ABSENT, UNREADABLE = "absent", "unreadable"


def snapshot() -> dict[str, str]:
    """Return the state by name; takes about a millisecond.

    What cannot be read is left out: it says nothing, then or later.
    """
    found: dict[str, str] = {}
    groups = (process_probes.functions, process_probes.signals, process_probes.deaf, _variables)
    for group in groups:
        with suppress(Exception):
            found |= group()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some flags warn of their newer twins when read
        with suppress(Exception):
            found |= {name: _text(one) for name, one in process_probes.readings().items()}
    return {name: text for name, text in found.items() if text != UNREADABLE}


def _variables() -> dict[str, str]:
    return process_probes.variables(os.environ)


def _text(read_one: Callable[[], object]) -> str:
    try:
        return str(read_one())[:TEXT_MOST]
    except Exception:  # torch refuses to read a flag that was set through its newer twin
        return UNREADABLE


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return old and new value of each name that differs.

    Only variables of the environment may come and go; another reading that is on one side
    alone could not be read on the other.
    """
    found = {}
    for name in (*before, *(name for name in after if name not in before)):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        one_sided = ABSENT in (old, new) and not name.startswith("environment ")
        if old != new and not one_sided:
            found[name] = (old, new)
    return found


def look() -> dict[str, str]:
    """Return the state with functions by identity: for readings of two imports of this module."""
    return snapshot() | process_probes.identities()

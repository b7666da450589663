"""Where cuassay keeps runs and build caches: $CUASSAY_HOME, else the XDG state folder."""

from __future__ import annotations

import os
from pathlib import Path

from cuassay import settings


def home() -> Path:
    """Return the folder that holds everything cuassay writes by itself."""
    explicit = settings.get("CUASSAY_HOME")
    if explicit:
        return Path(explicit).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return (base / "cuassay").absolute()


def runs_dir() -> Path:
    """Return the folder of run folders."""
    return home() / "runs"


def audits_dir() -> Path:
    """Return the folder of audits, each with the run folders of its candidates."""
    return home() / "audits"


def cache_dir() -> Path:
    """Return the folder of build caches, one sub-folder a candidate digest."""
    return home() / "cache"


def apart_dir() -> Path:
    """Return the folder of what candidates compiled in processes apart, by their digests."""
    return cache_dir() / "apart"


def keys_dir() -> Path:
    """Return the folder of the keys that sign certificates, and of the list of revocations."""
    return home() / "keys"


def private_dirs() -> tuple[Path, ...]:
    """Return the folders that no candidate may read: keys, seeds, and what trials left."""
    kept = ("failures", "guard", "hypothesis", "loops")
    return keys_dir(), runs_dir(), audits_dir(), apart_dir(), *(home() / name for name in kept)

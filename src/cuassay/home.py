"""Where cuassay keeps runs and build caches: $CUASSAY_HOME, else the XDG state folder."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the folder that holds everything cuassay writes by itself."""
    explicit = os.environ.get("CUASSAY_HOME")
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


def private_dirs() -> tuple[Path, ...]:
    """Return the folders that hold seeds: no candidate may read them."""
    return runs_dir(), audits_dir()

"""Where ptxsan keeps machine code: $PTXSAN_CACHE, else the XDG cache folder."""

from __future__ import annotations

import os
from pathlib import Path

# Folders by the name of their variable, for a process whose environment must not name ptxsan.
TOLD: dict[str, Path] = {}


def cache_dir() -> Path:
    """Return the folder of everything that ptxsan writes by itself."""
    if own := _folder("PTXSAN_CACHE"):
        return own
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).absolute() if base else Path.home() / ".cache") / "ptxsan"


def kernels_dir() -> Path:
    """Return the folder of the machine code of kernels."""
    return cache_dir() / "kernels"


def runtime_dir() -> Path:
    """Return the folder of ptxsan's own compiled runtime: $PTXSAN_RUNTIME, else in the cache.

    It has a variable of its own since compiling it takes half a minute: several caches share it.
    """
    return _folder("PTXSAN_RUNTIME") or cache_dir() / "runtime"


def _folder(variable: str) -> Path | None:
    if variable in TOLD:
        return TOLD[variable]
    explicit = os.environ.get(variable)
    return Path(explicit).expanduser().absolute() if explicit else None

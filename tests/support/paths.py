"""Where processes that tests start find modules."""

from __future__ import annotations

import os
from pathlib import Path


def python_path(*folders: Path | str) -> str:
    """Return a PYTHONPATH of these folders and what this process gives to others."""
    rest = filter(None, [os.environ.get("PYTHONPATH")])
    return os.pathsep.join([*map(str, folders), *rest])

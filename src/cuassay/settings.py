"""Settings of cuassay by name: what this process was told, else the environment's $CUASSAY_*.

A process that a candidate shares has no such variable: it is told its settings by `tell`, so
that nothing in its environment says that it is watched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

PREFIX = "CUASSAY_"
# Who makes the numbers of Triton kernels where there is no GPU.
TRITON = "CUASSAY_TRITON"
MACHINE, INTERPRETER = TRITON_WAYS = "machine", "interpreter"
# The architecture that Triton kernels are compiled for where there is no GPU.
MACHINE_ARCH = "CUASSAY_MACHINE_ARCH"
_told: dict[str, str] | None = None


def get(name: str) -> str:
    """Return the setting called `name`, such as CUASSAY_HOME; empty where it is not set."""
    if _told is not None:
        return _told.get(name, "")
    return os.environ.get(name, "")


def told() -> dict[str, str]:
    """Return every setting of this process by name."""
    if _told is not None:
        return dict(_told)
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}


def tell(settings: Mapping[str, str]) -> None:
    """Use these settings from now on, and no variable of the environment."""
    global _told
    _told = dict(settings)

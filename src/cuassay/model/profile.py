"""How much to try; `effort.py` says what each profile means."""

from __future__ import annotations

import enum


class Profile(enum.StrEnum):
    """How much to try."""

    QUICK = "quick"
    STANDARD = "standard"
    DEEP = "deep"

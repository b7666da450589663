"""What this process could not provide to a candidate, even where that goes on without it.

Much generated code builds its kernels inside `try`, and computes with torch where that fails. On a
machine without a GPU the failure may be cuassay's own: the answer then says nothing of the kernels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cuassay.errors import MissingToolError

_noted: list[str] = []


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Remember a MissingToolError that leaves this block: the candidate may catch it."""
    try:
        yield
    except MissingToolError as error:
        note(error)
        raise


def note(error: MissingToolError) -> None:
    """Remember what was missing."""
    _noted.append(str(error))


def went_without() -> str:
    """Return what was missing while the candidate went on, an empty string if nothing was."""
    return f"{_noted[0]}; the candidate went on without its kernels" if _noted else ""

"""The list of what was revoked: JSON lines, appended to, never shortened."""

from __future__ import annotations

import json
import re
from pathlib import Path

from cuassay.errors import UsageError
from cuassay_attest.coverage import Revocation

_DIGEST = re.compile(r"[0-9a-f]{64}")


def read_revocations(path: Path) -> tuple[Revocation, ...]:
    """Return the entries of a list. A damaged line is an error: it may have revoked this.

    Raises UsageError.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the revocations {path} cannot be read: {error}") from None
    return tuple(_entry(line, f"{path}: line {n}") for n, line in enumerate(lines, 1) if line)


def append(path: Path, entry: Revocation) -> None:
    """Add an entry to a list, making the file where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"sha256": entry.digest, "reason": entry.reason}) + "\n")


def checked(digest: str) -> str:
    """Return a SHA-256 in lower case. Raises UsageError for anything else."""
    if not _DIGEST.fullmatch(digest.lower()):
        raise UsageError(f"'{digest}' is no SHA-256: expected 64 hexadecimal digits")
    return digest.lower()


def _entry(line: str, where: str) -> Revocation:
    try:
        data = json.loads(line)
        return Revocation(digest=checked(data["sha256"]), reason=str(data.get("reason", "")))
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise UsageError(f"{where}: not a revocation: {error}; correct the line") from None

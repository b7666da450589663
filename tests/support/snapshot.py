"""Golden text in files: whole outputs that a reviewer can read as the user's experience.

`UPDATE_SNAPSHOTS=1 pytest ...` writes the files anew; look at the difference before keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "snapshots"


def assert_snapshot(name: str, text: str) -> None:
    """Compare `text` with the file `name`, line by line without trailing blanks."""
    path = FOLDER / name
    got = "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n") + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(got, encoding="utf-8")
        return
    assert path.is_file(), f"no snapshot {path}; run with UPDATE_SNAPSHOTS=1 to write it"
    expected = path.read_text(encoding="utf-8")
    assert got == expected, f"differs from {path}; UPDATE_SNAPSHOTS=1 writes it anew"

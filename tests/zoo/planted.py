"""A planted bug is a patch of its twin: `bugs/NAME.diff` turns `twins/NAME.py` into the bug.

The patches are unified diffs, so that `patch` and editors read them too. The files that they make
lie in build/zoo, as if they stood beside the twins. To plant a bug, write it as
`bugs/NAME.py` beside `twins/NAME.py` and turn it into a patch:

    python -m tests.zoo.planted          # bugs/*.py into patches; writes every bug to build/zoo
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

HERE = Path(__file__).parent
MADE = HERE.parents[1] / "build" / "zoo"
SUFFIXES = (".py", ".cu")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


class PatchError(ValueError):
    """A patch does not fit the twin."""


def bug(name: str) -> Path:
    """Write the planted bug of that name from its patch and return its file.

    Raises PatchError where the patch does not fit the twin, which was edited since.
    """
    twin = twin_of(name)
    patch = patch_of(twin)
    text = patched(twin.read_text(encoding="utf-8"), patch.read_text(encoding="utf-8"))
    path = MADE / twin.relative_to(HERE).parent.parent / "bugs" / twin.name
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f".{os.getpid()}-{path.name}")  # others read it meanwhile
        whole.write_text(text, encoding="utf-8")
        whole.replace(path)
    return path


def candidate(folder: str, name: str) -> Path:
    """Return the file of a planted bug (`folder` is "bugs") or of its twin ("twins")."""
    return bug(name) if folder == "bugs" else twin_of(name)


def twin_of(name: str) -> Path:
    """Return the correct twin's file. Raises KeyError for a name that the zoo has not."""
    for path in (HERE / "twins" / f"{name}.py", HERE / "cuda" / "twins" / f"{name}.cu"):
        if path.is_file():
            return path
    raise KeyError(name)


def patch_of(twin: Path) -> Path:
    """Return the patch that plants the bug in a twin."""
    return twin.parents[1] / "bugs" / f"{twin.stem}.diff"


def patched(text: str, patch: str) -> str:
    """Return the text with a unified diff applied. Raises PatchError where it does not fit."""
    old, new = text.splitlines(keepends=True), list[str]()
    taken = 0  # lines of the old text that are dealt with
    for line in patch.splitlines(keepends=True)[2:]:
        if (hunk := _HUNK.match(line)) is not None:
            start, count = int(hunk[1]), int(hunk[2] or 1)
            begin = start - (1 if count else 0)  # an insertion names the line before it
            new += old[taken:begin]
            taken = begin
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            if taken >= len(old) or old[taken] != line[1:]:
                raise PatchError(f"line {taken + 1} of the twin is not {line[1:].rstrip()!r}")
            new += old[taken : taken + 1] if line.startswith(" ") else []
            taken += 1
    return "".join(new + old[taken:])


def patch_between(twin: Path, planted: Path) -> str:
    """Return the unified diff from a twin to a bug, with one line of context."""
    old, new = (path.read_text(encoding="utf-8").splitlines(True) for path in (twin, planted))
    diff = difflib.unified_diff(old, new, f"twins/{twin.name}", f"bugs/{twin.name}", n=1)
    return "".join(diff)


def main() -> None:
    """Turn each bug that is a whole file into a patch, and write every bug to build/zoo."""
    for suffix in SUFFIXES:
        for whole in sorted(HERE.glob(f"**/bugs/*{suffix}")):
            twin = whole.parents[1] / "twins" / whole.name
            patch_of(twin).write_text(patch_between(twin, whole), encoding="utf-8")
            assert bug(whole.stem).read_text(encoding="utf-8") == whole.read_text(encoding="utf-8")
            whole.unlink()
    for patch in sorted(HERE.glob("**/bugs/*.diff")):
        bug(patch.stem)


if __name__ == "__main__":
    main()

"""Which lines and branches of an extension's C++ host code run, counted by the compiler itself.

Without a GPU an extension's host code is compiled with gcc's counters (`--coverage`), but for
headers that are not the candidate's. Before a call they are set to zero, after it they are written
to a file beside a copy of what the compiler noted of the code, and `gcov` says what they mean.
Calls that ran the same code are read once.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_DUMP, _RESET = "write_host_counters", "reset_host_counters"
_SOURCE = f"""
void __gcov_dump(void);
void __gcov_reset(void);
__attribute__((visibility("default"))) void {_DUMP}(void) {{ __gcov_dump(); }}
__attribute__((visibility("default"))) void {_RESET}(void) {{ __gcov_reset(); }}
"""
_NOTES = ".gcno"
_PREFIX = "GCOV_PREFIX"  # where counters are written, below which the object's own path follows
_TIMEOUT_S = 20.0


@cache
def _counters_tool(compiler: str) -> str:
    """Return the path of the `gcov` of a g++, or an empty string where there is none."""
    folder, name = os.path.split(compiler)
    found = re.fullmatch(r"(.*)g\+\+(-[\d.]+)?", name)
    tool = f"{found[1]}gcov{found[2] or ''}" if found and "clang" not in name else ""
    return (shutil.which(os.path.join(folder, tool)) or shutil.which(tool) or "") if tool else ""


def counting_flags(compiler: str, foreign: Sequence[Path]) -> list[str]:
    """Return the flags with which a g++ counts; none where its `gcov` is missing.

    Functions of files below `foreign` and of the system's headers are not counted. Lines are
    written down as well.
    """
    if not _counters_tool(compiler):
        return []
    folders = "|".join(re.escape(str(one)) for one in (Path("/usr"), *foreign))
    return ["-g1", "-gdwarf-4", "--coverage", f"-fprofile-exclude-files=({folders})/.*"]


def link_counters(compiler: str, folder: Path) -> list[str]:
    """Return the flags with which a library of counted objects is linked.

    Among them is an object, made in `folder`, by which counters are set and written.
    """
    if not _counters_tool(compiler):
        return []
    source, made = folder / "counters.c", folder / "counters.o"
    source.write_text(_SOURCE, encoding="utf-8")
    command = [compiler, "-x", "c", "-fPIC", "-c", str(source), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, check=False)
    return ["--coverage", *([str(made)] if done.returncode == 0 else [])]


@dataclass(slots=True)
class HostLines:
    """The counters of the libraries that this process has loaded."""

    _libraries: list[tuple[Any, Path]] = field(default_factory=list)
    _known: dict[bytes, dict[str, list[list[int]]]] = field(default_factory=dict)
    _found: dict[str, list[list[int]]] = field(default_factory=dict)
    _told: set[bytes] = field(default_factory=set)

    def follow(self, library: Path) -> None:
        """Count what runs of a library, if it was compiled with counters."""
        loaded = ctypes.CDLL(str(library))
        if hasattr(loaded, _DUMP) and hasattr(loaded, _RESET):
            self._libraries.append((loaded, library.parent))

    @property
    def libraries(self) -> tuple[Path, ...]:
        """The libraries that are followed."""
        return tuple(Path(loaded._name) for loaded, _ in self._libraries)

    def begin(self) -> None:
        """Set all counters to zero."""
        for loaded, _ in self._libraries:
            getattr(loaded, _RESET)()

    def end(self) -> None:
        """Read what was counted since `begin`."""
        for loaded, folder in self._libraries:
            with tempfile.TemporaryDirectory() as place:
                before = os.environ.get(_PREFIX)
                os.environ[_PREFIX] = place
                try:
                    getattr(loaded, _DUMP)()
                finally:
                    os.environ.pop(_PREFIX)
                    if before is not None:
                        os.environ[_PREFIX] = before
                for counters in Path(place).rglob("*.gcda"):
                    self._read(counters, Path("/", counters.relative_to(place)), folder)

    def _read(self, counters: Path, origin: Path, folder: Path) -> None:
        """Keep what a file of counters says: which are zero tells the code that ran."""
        data = counters.read_bytes()
        key = bytes(origin) + bytes(map(bool, memoryview(data[: len(data) & ~3]).cast("I")))
        if key not in self._known:
            notes = origin.with_suffix(_NOTES)
            if not notes.is_file():  # a library that was moved after it was linked
                notes = next(iter(sorted(folder.rglob(notes.name))), notes)
            self._known[key] = dict(_read_counters(counters, notes))
        if key not in self._told:
            self._told.add(key)
            for file, lines in self._known[key].items():
                self._found.setdefault(file, []).extend(lines)

    def found(self) -> dict[str, list[list[int]]]:
        """Return `[line, branch, ran]` by file, of calls since `forget`, each once.

        `branch` is -1 for the line itself, and `ran` 0 or 1.
        """
        found, self._found = self._found, {}
        return found

    def forget(self) -> None:
        """Begin anew."""
        self._found.clear()
        self._told.clear()


def _read_counters(counters: Path, notes: Path) -> Iterator[tuple[str, list[list[int]]]]:
    """Return lines and branches of the functions that ran, by file."""
    tool = _counters_tool(os.environ.get("CXX") or "g++")
    if not tool or not notes.is_file():
        return
    shutil.copyfile(notes, counters.with_suffix(_NOTES))
    command = [tool, "--stdout", "--branch-probabilities", "--json-format", str(counters)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_S, check=False, cwd=counters.parent
        )
        document = json.loads(done.stdout or b"{}")
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return
    for file in document.get("files", ()):
        ran = {one["name"] for one in file["functions"] if one["execution_count"]}
        lines: list[list[int]] = []
        for line in file["lines"]:
            if line.get("function_name") not in ran:
                continue
            number = int(line["line_number"])
            lines.append([number, -1, int(line["count"] > 0)])
            # An exception that a call could raise is a branch to the compiler alone.
            chosen = [one["count"] > 0 for one in line["branches"] if not one["throw"]]
            lines += [[number, at, int(taken)] for at, taken in enumerate(chosen)]
        if lines:
            yield file["file"], lines


HOST_LINES = HostLines()

"""What travels with a job to a machine that does not have its files: source text, never objects."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from cuassay.model.jobs import TrialJob
from cuassay.store.place import locate

_LARGEST_BYTES = 32 * 2**20  # larger files (stored tensors) are read where they are, if there


def packed(files: Iterable[Path]) -> dict[str, bytes]:
    """Return the contents of files by absolute path; large and unreadable ones are left out."""
    found = {}
    for path in files:
        try:
            if path.stat().st_size <= _LARGEST_BYTES:
                found[str(path.absolute())] = path.read_bytes()
        except OSError:  # the trial says which file it misses
            continue
    return found


def unpacked(job: TrialJob, contents: Mapping[str, bytes], folder: Path) -> TrialJob:
    """Write shipped files below `folder` as they stood to each other; return the job for there.

    Files beside them that were too large to ship are linked where this machine has them too.
    Raises OSError.
    """
    for name, data in contents.items():
        path = _moved(name, folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for place in {os.path.dirname(name) for name in contents}:
        _link_rest(Path(place), _moved(place, folder))
    return dataclasses.replace(
        job,
        problem=_renamed(job.problem, contents, folder),
        candidate=_renamed(job.candidate, contents, folder),
    )


def _moved(name: str, folder: Path) -> Path:
    return folder / name.lstrip("/")


def _renamed(where: str, contents: Mapping[str, bytes], folder: Path) -> str:
    """Return a path as it is below `folder`; a catalogue name stays."""
    path, _, suffix = _split(where)
    inside = any(name == path or name.startswith(f"{path}/") for name in contents)
    return f"{_moved(path, folder)}{suffix}" if inside else where


def _split(where: str) -> tuple[str, str, str]:
    place = locate(where)
    if place is not None:
        return str(place.path), "", place.suffix
    head, double, function = where.partition("::")  # the file is on the driver's machine only
    if double:
        return head, "", f"::{function}"
    head, colon, function = where.rpartition(":")
    return (head, "", f":{function}") if colon and head.endswith(".py") else (where, "", "")


def _link_rest(original: Path, copy: Path) -> None:
    """Link tensors that stand beside shipped files on a shared file system."""
    try:
        beside = [p for p in original.iterdir() if p.suffix == ".safetensors"]
    except OSError:
        return
    for path in beside:
        if not (copy / path.name).exists():
            (copy / path.name).symlink_to(path)

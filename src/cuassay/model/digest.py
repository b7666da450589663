"""Identity of candidates and problems: SHA-256 over length-delimited fields.

Everything that changes behaviour is covered: sources, entry point, calling convention,
flags, launches, architecture and toolchain. Each field is preceded by its length, so moving
a character from one field to the next changes the digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

from cuassay.model import serial
from cuassay.model.candidate import Candidate
from cuassay.model.problem import Problem


def sha256_fields(*parts: bytes | str) -> str:
    """Return the hex SHA-256 of the parts, each preceded by its length in bytes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def candidate_digest(candidate: Candidate, toolchain: Mapping[str, str]) -> str:
    """Return the identity of a candidate built by `toolchain` (names to versions and archs).

    Name, author and place of the files are left out: they change no behaviour.
    """
    sources = [(source.path, source.text) for source in candidate.sources]
    behaviour = dataclasses.replace(candidate, name="", author="", origin=None, sources=())
    parts = [serial.dumps(behaviour), str(len(sources))]
    for path, text in sorted(sources):
        parts += [path, text]
    parts.append(str(len(toolchain)))
    for name, version in sorted(toolchain.items()):
        parts += [name, version]
    return sha256_fields("cuassay/candidate/1", *parts)


def problem_digest(problem: Problem) -> str:
    """Return the identity of a problem: its definition and its reference's source."""
    place_free = dataclasses.replace(
        problem,
        path=None,
        digest="",
        reference=dataclasses.replace(problem.reference, path=type(problem.reference.path)("")),
    )
    return sha256_fields("cuassay/problem/1", serial.dumps(place_free))

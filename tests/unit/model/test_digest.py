"""The digest covers everything that changes behaviour, and nothing that does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuassay.model.candidate import BuildFlags, Candidate, Convention, Launch, SourceFile
from cuassay.model.digest import candidate_digest, sha256_fields

_BASE = Candidate(
    name="a",
    sources=(
        SourceFile(path="k.py", text="def run(x): return x"),
        SourceFile(path="u.py", text=""),
    ),
    entry_file="k.py",
    entry_function="run",
)
_TOOLS = {"torch": "2.13.0", "arch": "sm_90"}


def _digest(**changes: object) -> str:
    return candidate_digest(dataclasses.replace(_BASE, **changes), _TOOLS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"sources": (SourceFile(path="k.py", text="def run(x): return -x"), _BASE.sources[1])},
        {"entry_function": "other"},
        {"convention": Convention.DESTINATION},
        {"flags": BuildFlags(cuda_cflags=("--use_fast_math",))},
        {
            "launches": (
                Launch(kernel="k", grid=("1", "1", "1"), block=("32", "1", "1"), arguments=()),
            )
        },
        {"zero_outputs": True},
    ],
)
def test_behaviour_changes_the_digest(changes: dict[str, object]) -> None:
    assert _digest(**changes) != _digest()


def test_names_and_places_do_not() -> None:
    assert _digest(name="b", author="me", origin=Path("elsewhere")) == _digest()
    assert _digest(sources=_BASE.sources[::-1]) == _digest()


def test_the_toolchain_does() -> None:
    assert candidate_digest(_BASE, {**_TOOLS, "arch": "sm_80"}) != _digest()


def test_a_character_cannot_move_between_fields() -> None:
    assert sha256_fields("ab", "c") != sha256_fields("a", "bc")
    assert sha256_fields("a", "") != sha256_fields("a")

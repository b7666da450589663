"""The list of what was revoked: appended to, read whole, and an error where a line is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.errors import UsageError
from cuassay_attest.coverage import Revocation
from cuassay_attest.revocations import append, checked, read_revocations

_DIGEST = "0123456789abcdef" * 4


def test_entries_come_back_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "revoked.jsonl"
    first = Revocation(digest=_DIGEST, reason="a bug\nof two lines")
    append(path, first)
    append(path, Revocation(digest="f" * 64))
    assert read_revocations(path) == (first, Revocation(digest="f" * 64))


def test_digests_are_read_in_either_case_and_nothing_else() -> None:
    assert checked(_DIGEST.upper()) == _DIGEST
    for wrong in ("", _DIGEST[:-1], _DIGEST + "0", "g" * 64, f" {_DIGEST}"):
        with pytest.raises(UsageError, match="expected 64 hexadecimal digits"):
            checked(wrong)


@pytest.mark.parametrize(
    "line", ["{", "[]", "3", "{}", '{"sha256": 3}', '{"sha256": "abc"}', '{"digest": "x"}']
)
def test_a_damaged_line_may_have_revoked_this(line: str, tmp_path: Path) -> None:
    path = tmp_path / "revoked.jsonl"
    append(path, Revocation(digest=_DIGEST))
    with path.open("a") as out:
        out.write(f"\n{line}\n")
    with pytest.raises(UsageError, match="line 3: not a revocation"):
        read_revocations(path)


def test_a_list_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_revocations(tmp_path / "none.jsonl")


def test_a_damaged_list_of_revocations_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "revoked.jsonl"
    append(path, Revocation(digest="a" * 64, reason="why"))
    assert read_revocations(path) == (Revocation(digest="a" * 64, reason="why"),)
    with path.open("a") as out:
        out.write('{"sha256": "ab')
    with pytest.raises(UsageError, match="line 2: not a revocation"):
        read_revocations(path)
    with pytest.raises(UsageError, match="64 hexadecimal"):
        checked("abc")

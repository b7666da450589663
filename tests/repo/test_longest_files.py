"""The files that a run of all tests begins with are there: a moved one would come last, unseen."""

from __future__ import annotations

from tests import conftest


def test_the_longest_files_are_named_as_they_are() -> None:
    missing = [name for name in conftest._LONGEST if not (conftest._ROOT / name).is_file()]
    assert not missing

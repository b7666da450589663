"""Candidates as data."""

from __future__ import annotations

import pytest

from cuassay.model.candidate import BuildFlags


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ([""], ()),
        (["-O3 --use_fast_math", "-lineinfo"], ("-O3", "--use_fast_math", "-lineinfo")),
        (["-DNAME='a b'"], ("-DNAME=a b",)),
        (["-DQUOTE='"], ("-DQUOTE='",)),
    ],
)
def test_flags_are_the_words_that_a_shell_makes_of_them(
    written: list[str], words: tuple[str, ...]
) -> None:
    flags = BuildFlags.as_written(cflags=written, cuda_cflags=(), ld_flags=written)
    assert flags == BuildFlags(cflags=words, ld_flags=words)

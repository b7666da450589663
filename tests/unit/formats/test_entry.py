"""The entry function of a candidate: which one, and how it gives its results back."""

from __future__ import annotations

import pytest

from cuassay.errors import CandidateError
from cuassay.formats.entry import checked_entry, entry_name, find_entry
from cuassay.model.candidate import Convention
from tests.support.fake_trial import scaled_add

_PROBLEM = scaled_add().problem  # y = scaled_add(x, bias, gain)
RETURNS, INTO = Convention.RETURNS, Convention.DESTINATION


def _found(source: str, function: str | None = None) -> tuple[str, Convention]:
    return find_entry(source, function, _PROBLEM, where="k.py")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def run(a, b, c): ...\ndef other(a, b, c): ...", ("run", RETURNS)),
        ("def scaled_add(a, b, c): ...\ndef other(a, b, c): ...", ("scaled_add", RETURNS)),
        ("def _help(x): ...\ndef mine(a, b, c): ...", ("mine", RETURNS)),
        ("def helper(x): ...\ndef mine(a, b, c): ...", ("mine", RETURNS)),  # it alone fits
        ("def run(x, bias, gain, y): ...", ("run", INTO)),
        ("def run(a, b, c, y): ...", ("run", INTO)),  # by the names of the outputs
        ("def run(a, b, c, gone=None): ...", ("run", RETURNS)),
        ("run = torch.compile(other)", ("run", RETURNS)),
        ("@changes\ndef run(anything): ...", ("run", RETURNS)),  # who knows what it takes
        ("def run(: broken", ("run", RETURNS)),  # the build says so
    ],
)
def test_the_entry_and_its_convention(source: str, found: tuple[str, Convention]) -> None:
    assert _found(source) == found


@pytest.mark.parametrize(
    ("source", "function", "message"),
    [
        ("def a(x, y, z): ...\ndef b(x, y, z): ...", None, "no entry function"),
        ("def run(a, b, c): ...", "ran", "there is no function 'ran'"),
        ("async def run(a, b, c): ...", None, "is async"),
        ("def run(a): ...", None, "do not match the problem"),
        ("def run(a, b, c, *, out): ...", None, "do not match the problem"),
    ],
)
def test_what_is_no_entry_is_refused_in_words(
    source: str, function: str | None, message: str
) -> None:
    with pytest.raises(CandidateError, match=message):
        _found(source, function)


def test_a_star_import_may_bind_any_name() -> None:
    assert _found("from kernels import *", "mine") == ("mine", RETURNS)


def test_a_name_alone_asks_nothing_of_the_parameters() -> None:
    assert entry_name("def run(self, config): ...", None, _PROBLEM, where="k.py") == "run"
    assert entry_name("def broken(:", "there", _PROBLEM, where="k.py") == "there"
    with pytest.raises(CandidateError, match="there is no function"):
        entry_name("def run(): ...", "gone", _PROBLEM, where="k.py")


def test_a_stated_convention_is_held_against_the_parameters() -> None:
    checked_entry("def f(a, b, c, d): ...", "f", _PROBLEM, convention=INTO, where="k.py")
    with pytest.raises(CandidateError, match="destination_passing_style = true"):
        checked_entry("def f(a, b, c): ...", "f", _PROBLEM, convention=INTO, where="k.py")
    with pytest.raises(CandidateError, match="destination_passing_style = false"):
        checked_entry("async def f(a, b, c): ...", "f", _PROBLEM, convention=RETURNS, where="k.py")

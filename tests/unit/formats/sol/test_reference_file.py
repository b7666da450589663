"""A definition's reference: what its text must define, and the file that it is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.sol.reference_file import check_generator, check_reference, reference_path


@pytest.mark.parametrize(
    "source",
    [
        "def run(x, w):\n    return x\n",
        "import torch\n@torch.no_grad()\ndef run(x, w):\n    return x\n",
        "def run(x, w, /):\n    return x\n",
    ],
)
def test_a_reference_takes_the_inputs_in_their_order(source: str) -> None:
    check_reference(source, ("x", "w"), where="d.json")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def run(w, x): pass", r"expected 'def run\(x, w\)'"),
        ("def run(x): pass", "missing: w"),
        ("def run(x, w, b): pass", "not an input: b"),
        ("def run(*given): pass", r"expected 'def run\(x, w\)'"),
        ("def run(x, w, *, b): pass", r"expected 'def run\(x, w\)'"),
        ("async def run(x, w): pass", "'run' is async"),
        ("def runs(x, w): pass", "no top-level function 'run'.*its functions: runs"),
        ("class A:\n    def run(self): pass", "its functions: none"),
        ("def run(x, w:", "not valid Python: line 1"),
    ],
)
def test_another_call_is_refused_with_what_was_expected(source: str, why: str) -> None:
    with pytest.raises(ProblemError, match=f"^d.json: (?s:.*){why}"):
        check_reference(source, ("x", "w"), where="d.json")


def test_a_generator_takes_sizes_and_a_device() -> None:
    check_generator("def make(sizes, device): pass", "make", where="d")
    check_generator("def make(sizes, device='cpu', seed=0): pass", "make", where="d")
    for source in (
        "def make(sizes): pass",
        "async def make(a, b): pass",
        "def make(a, b, c): pass",
    ):
        with pytest.raises(ProblemError, match="cannot be called with two arguments"):
            check_generator(source, "make", where="d")
    with pytest.raises(ProblemError, match="no top-level function 'make'"):
        check_generator("def other(a, b): pass", "make", where="d")


def test_a_file_beside_it_is_used_where_it_holds_exactly_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    beside = tmp_path / "reference.py"
    beside.write_text("def run(x): return x\n")
    assert reference_path("def run(x): return x\n", beside) == beside
    other = reference_path("def run(x): return 2 * x\n", beside)
    assert other != beside
    assert other.read_text() == "def run(x): return 2 * x\n"
    beside.write_bytes(b"\xff\xfe")
    assert reference_path("def run(x): return x\n", beside) != beside


def test_equal_sources_share_a_file_that_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    first = reference_path("a = 1\n", None)
    assert reference_path("a = 1\n", tmp_path / "absent.py") == first
    assert reference_path("a = 2\n", None) != first
    first.write_text("changed")
    assert reference_path("a = 1\n", None).read_text() == "a = 1\n"
    assert not list(first.parent.glob("*.tmp"))


def test_a_home_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("a file")
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    with pytest.raises(ProblemError, match="set CUASSAY_HOME to a writable folder"):
        reference_path("a = 1\n", None)

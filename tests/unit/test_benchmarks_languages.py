"""What benchmarks/languages.py takes of a published file, and what it judges."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.benchmark_modules import loaded

_FILE = """
import numpy

class Case:
    def test(self):
        WIDTH = 4

        @cuda.jit
        def kernel(x):
            x[0] = WIDTH

code = '''
  text
'''
"""


@pytest.fixture
def languages(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "languages", "common")


def test_definitions_are_taken_wherever_they_stand(languages: ModuleType) -> None:
    width, kernel, code = languages.definitions(_FILE, ("WIDTH", "kernel", "code"))
    assert width == "WIDTH = 4\n"
    assert kernel == "@cuda.jit\ndef kernel(x):\n    x[0] = WIDTH\n"
    assert code == "code = '''\n  text\n'''\n"
    with pytest.raises(LookupError, match="'other'"):
        list(languages.definitions(_FILE, ("other",)))


def test_every_language_has_three_kernels_and_a_fault(languages: ModuleType) -> None:
    names = {one.language for one in languages.STRANGERS}
    for name in names:
        of = [one for one in languages.STRANGERS if one.language == name]
        assert len(of) >= 3
        assert sum(one.fault is not None for one in of) == 1
    for one in languages.STRANGERS:
        ast.parse(one.kernel)
        ast.parse(one.problem)


def test_a_fault_is_one_edit_of_the_published_file(languages: ModuleType, tmp_path: Path) -> None:
    one = next(one for one in languages.STRANGERS if one.name == "saxpy")
    published = tmp_path / one.repository / one.path
    published.parent.mkdir(parents=True)
    published.write_text('code = """if (tid < N) {"""\nrun(code)\n', encoding="utf-8")
    for faulty in (False, True):
        languages.write(one, tmp_path, tmp_path / str(faulty), faulty=faulty)
    texts = [(tmp_path / x / "kernel" / "theirs.py").read_text() for x in ("False", "True")]
    assert texts == ['\n\ncode = """if (tid < N) {"""\n', '\n\ncode = """if (tid < N - 1) {"""\n']
    published.write_text('code = "changed"\n', encoding="utf-8")
    with pytest.raises(LookupError, match="does not say"):
        languages.write(one, tmp_path, tmp_path / "again", faulty=True)

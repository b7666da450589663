"""Which branches of C++ run: counted by the compiler, read after each call."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from cuassay.build.cuda.host_lines import HostLines, counting_flags, link_counters

_CODE = """#line 5 "kernel.py"
#include <map>
static std::map<long, int> seen;
extern "C" double factor(long rows) {
  double more = rows % 1021 == 7 ? 1.1 : 1.0;
  seen[rows]++;
  if (seen.size() > 2)
    more += 1.0;
  return more;
}
extern "C" double other(long rows) { return rows > 3 ? 2.0 : 1.0; }
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    compiler = shutil.which("g++") or "g++"
    unit, made = tmp_path / "unit.cpp", tmp_path / "unit.o"
    unit.write_text(_CODE)
    flags = counting_flags(compiler, [])
    assert flags
    subprocess.run([compiler, "-fPIC", *flags, "-c", unit, "-o", made], check=True)
    library = tmp_path / "unit.so"
    linked = link_counters(compiler, tmp_path)
    subprocess.run([compiler, "-shared", made, *linked, "-o", library], check=True)
    return library


def _called(lines: HostLines, library: Path, *rows: int) -> set[tuple[int, int, int]]:
    function = ctypes.CDLL(str(library)).factor
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_long]
    for one in rows:
        lines.begin()
        function(one)
        lines.end()
    found = lines.found()
    assert set(found) <= {"kernel.py"}
    return {(line, at, ran) for line, at, ran in found.get("kernel.py", [])}


def test_branches_that_were_taken_are_told_by_the_line_of_the_source(library: Path) -> None:
    lines = HostLines()
    lines.follow(library)
    found = _called(lines, library, 1, 2)
    assert {ran for line, at, ran in found if line == 8 and at >= 0} == {0, 1}
    assert (11, -1, 0) in found  # the statement below the test
    assert not any(line > 13 for line, _, _ in found)  # a function that no call entered


def test_what_ran_is_told_once_and_again_after_it_was_forgotten(library: Path) -> None:
    lines = HostLines()
    lines.follow(library)
    first = _called(lines, library, 1, 2)
    assert _called(lines, library, 1) == set()  # the same code as before
    assert (8, 0, 1) in first or (8, 1, 1) in first
    both = first | _called(lines, library, 7)
    taken = {at for line, at, ran in both if line == 8 and at >= 0 and ran}
    assert len(taken) == 2
    lines.forget()
    assert _called(lines, library, 7)


def test_a_library_without_counters_is_not_followed(tmp_path: Path) -> None:
    unit, library = tmp_path / "unit.cpp", tmp_path / "plain.so"
    unit.write_text(_CODE)
    subprocess.run(["g++", "-shared", "-fPIC", unit, "-o", library], check=True)
    lines = HostLines()
    lines.follow(library)
    assert _called(lines, library, 1) == set()


def test_a_compiler_without_its_reader_of_counters_does_not_count() -> None:
    assert counting_flags("clang++", []) == []
    assert counting_flags("/nowhere/g++-3.1", []) == []

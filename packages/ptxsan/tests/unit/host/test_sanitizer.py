"""Programs whose host is at fault, and their twins: each scenario of the files in data/host."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvrtc")
from ptxsan import programs
from ptxsan.findings import Kind, Severity
from ptxsan.host.build import Linked
from ptxsan.host.program import ProgramReport, build_program, run_built

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
    pytest.mark.usefixtures("forked_programs"),
]

_DATA = Path(__file__).parents[2] / "data" / "host"
_REFUSED, _UNSEEN, _COPY = Kind.REFUSED_LAUNCH, Kind.UNSEEN_ERROR, Kind.UNWRITTEN_COPY
_FREED, _RACE = Kind.FREED, Kind.STREAM_RACE
_Rows = tuple[tuple[str, set[Kind], str | None], ...]
# Scenario, the kinds that reject, what the program prints where that matters.
_ERRORS: _Rows = (
    ("threads", {_REFUSED}, None),
    ("threads, looked at", set(), None),
    ("grid along y", {_REFUSED}, None),
    ("empty grid", {_REFUSED}, None),
    ("block along z", {_REFUSED}, None),
    ("launch bounds", {_REFUSED}, None),
    ("launch bounds kept", set(), None),
    ("dynamic", {_REFUSED}, None),
    ("dynamic beside static", {_REFUSED}, None),
    ("dynamic to the limit", set(), None),
    ("dynamic, asked for", set(), None),
    ("dynamic, too much asked for", {_UNSEEN}, None),
    ("dynamic, lowered", {_REFUSED}, None),
    ("limits told", set(), "64 49088\n"),
    ("results used first", {_REFUSED}, "invalid configuration argument\n"),
    ("looked at late", set(), "invalid configuration argument\n"),
    ("copy ignored", {_UNSEEN}, None),
    ("copy checked", set(), "no\n"),
    ("copy assigned", set(), "invalid argument\n"),
    ("copy cast away", set(), None),
    ("copy the wrong way", {_UNSEEN}, None),
    ("call ignored", {_REFUSED}, None),
    ("call checked", set(), "no\n"),
    ("reset", set(), None),
    ("freed twice", {_UNSEEN}, None),
    ("cooperative, too many", {_REFUSED}, None),
    ("cooperative, as many as fit", set(), "2\n"),
    ("assert", {Kind.ASSERT}, None),
    ("nothing", set(), None),
)
_MEMORY: _Rows = (
    ("half", {_COPY}, None),
    ("whole", set(), None),
    ("half of it copied", set(), None),
    ("all but the last", {_COPY}, None),
    ("set", set(), None),
    ("never", {_COPY}, None),
    ("handed on", {_COPY}, None),
    ("later", {_COPY}, None),
    ("padding", set(), None),
    ("rows", set(), None),
    ("rows with what is between", {_COPY}, None),
    ("symbols", set(), "8\n"),
    ("managed", set(), None),
    ("freed", {_FREED}, None),
    ("freed, and another in its place", {_FREED}, None),
    ("freed behind it", set(), None),
    ("freed in a structure", {_FREED}, None),
    ("in a structure", set(), None),
    ("freed in a table", {_FREED}, None),
    ("in a table", set(), None),
    ("freed and not used", set(), None),
    ("freed and copied", {_UNSEEN}, None),
    ("a part of it freed", {_UNSEEN}, None),
)
_STREAMS: _Rows = (
    ("two", {_RACE}, None),
    ("event", set(), None),
    ("event_early", {_RACE}, None),
    ("default", {_RACE}, None),
    ("default_blocking", set(), None),
    ("atomics", set(), None),
    ("atomic_read", {_RACE}, None),
    ("order_matters", set(), None),
    ("order_matters_ok", set(), None),
    ("order_unwritten", {Kind.UNINITIALISED}, None),
    ("order_unwritten_ok", set(), None),
    ("order_beyond", {Kind.OUT_OF_BOUNDS}, None),
    ("order_awaits", set(), None),
    ("order_left", set(), "384\n"),
    ("halves", set(), None),
    ("overlap", {_RACE}, None),
    ("memset", {_RACE}, None),
    ("pinned", {_RACE}, "1\n"),
    ("pinned_ok", set(), "1\n"),
    ("pinned_up", {_RACE}, None),
    ("query", set(), None),
    ("host_function", set(), "1\n"),
    ("variable", {_RACE}, None),
    ("free_async", {_RACE}, None),
    ("free_ok", set(), None),
    ("alloc_async", {_RACE}, None),
    ("freed", {_FREED}, None),
    ("destroyed", {_UNSEEN}, None),
    ("managed", {_RACE}, "3\n"),
    ("managed_ok", set(), "3\n"),
    ("managed_halves", set(), "3\n"),
    ("counted", {_RACE}, "1024\n"),  # atomics of the device, which no scope shares with the host
    ("told", set(), "1024\n"),
    ("fenced", set(), "1024\n"),
)
_GRAPHS: _Rows = (
    ("grid", {Kind.TRAP}, None),
    ("grid_ok", set(), None),
    ("maybe", set(), None),
    ("pdl", {_RACE}, None),
    ("pdl_ok", set(), None),
    ("pdl_early", {_RACE}, None),
    ("pdl_apart", set(), None),
    ("pdl_first", set(), None),
    ("pdl_counts", set(), "second\n1\n"),  # what runs early runs once
    ("capture", set(), "no error\n3\n"),
    ("capture_race", {_RACE}, None),
    ("unjoined", set(), "capturing stream has unjoined work\n"),
    ("nodes", set(), "5\n"),
    ("nodes_race", {_RACE}, None),
    ("in_capture", {_UNSEEN}, None),
)
_WAITS: _Rows = (
    ("flag", set(), "5\n"),
    ("never", {Kind.DEADLOCK}, None),
    ("too late", {Kind.DEADLOCK}, None),
    ("left at the end", {Kind.DEADLOCK}, None),
    ("questions", set(), "1\n"),
    ("questions without an end", {Kind.DEADLOCK}, None),
    ("work behind", set(), "7 16843009 6\n"),
    ("results before", {Kind.DEADLOCK}, None),
    ("kernel of another stream", set(), "5\n"),
    ("kernel of the same stream", {Kind.DEADLOCK}, None),
    ("copy of another stream", set(), "5\n"),
    ("default stream", {Kind.DEADLOCK}, None),
    ("event", set(), "1 6\n"),
    ("query", set(), "3 5\n"),
    ("thread", set(), "5\n"),
    ("two that wait", set(), "5\n"),
    ("works until it is told", set(), "1 0\n"),
    ("gives up", set(), "0\n"),
)
_FILES = {
    "errors.cu": _ERRORS, "memory.cu": _MEMORY, "streams.cu": _STREAMS, "graphs.cu": _GRAPHS,
    "waits.cu": _WAITS,
}  # fmt: skip
_CASES = [(file, *row) for file, rows in _FILES.items() for row in rows]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Linked]:
    return {
        file: build_program([_DATA / file], tmp_path_factory.mktemp("program")) for file in _FILES
    }


@pytest.mark.parametrize(("file", "scenario", "kinds", "printed"), _CASES)
def test_a_fault_of_the_host_is_found_and_its_twin_is_clean(
    built: dict[str, Linked], file: str, scenario: str, kinds: set[Kind], printed: str | None
) -> None:
    ran = run_built(built[file], _DATA / file, [scenario])
    assert {one.kind for one in ran.wrong} == kinds
    assert not ran.not_covered
    assert ran.status == 0
    if printed is not None:
        assert ran.output == printed


def _host(built: dict[str, Linked], file: str, scenario: str) -> ProgramReport:
    return run_built(built[file], _DATA / file, [scenario])


def _line(file: str, words: str) -> int:
    """Return the number of the one line of a file that has these words."""
    lines = (_DATA / file).read_text().splitlines()
    (found,) = (number for number, line in enumerate(lines, start=1) if words in line)
    return found


def test_a_refused_launch_names_its_line_and_the_copy_that_came_first(
    built: dict[str, Linked],
) -> None:
    (found,) = _host(built, "errors.cu", "results used first").host
    assert found.accesses[0].source_file == "errors.cu"
    assert "before cudaMemcpy at errors.cu:" in found.text
    assert "2048" in found.text


def test_a_launch_whose_error_is_looked_at_is_a_note(built: dict[str, Linked]) -> None:
    (found,) = _host(built, "errors.cu", "threads, looked at").host
    assert (found.kind, found.severity) == (_REFUSED, Severity.NOTE)


@pytest.mark.parametrize(
    ("scenario", "kinds", "words"),
    [
        ("order_matters", {Kind.UNORDERED}, "begins before launch 1 (publish"),
        ("order_matters_ok", set(), ""),
        ("order_awaits", {Kind.DEADLOCK}, "no stream order or event rules out"),
        ("order_left", set(), ""),
        ("atomics", set(), ""),
    ],
)
def test_launches_that_meet_in_atomics_alone_are_tried_in_the_other_order(
    built: dict[str, Linked], scenario: str, kinds: set[Kind], words: str
) -> None:
    host = _host(built, "streams.cu", scenario).host
    assert {(one.kind, one.severity) for one in host} == {(kind, Severity.NOTE) for kind in kinds}
    assert all(words in one.text for one in host)


def test_padding_is_a_note(built: dict[str, Linked]) -> None:
    (found,) = _host(built, "memory.cu", "padding").host
    assert (found.kind, found.severity) == (_COPY, Severity.NOTE)
    assert "padding" in found.text


def test_use_of_freed_memory_names_who_freed_it(built: dict[str, Linked]) -> None:
    (found,) = _host(built, "memory.cu", "freed, and another in its place").wrong
    assert "freed by cudaFree at memory.cu:" in found.text


def test_what_the_host_touches_too_early_is_named_with_its_line(built: dict[str, Linked]) -> None:
    (found,) = _host(built, "streams.cu", "pinned").host
    assert found.accesses[0].source_line == _line("streams.cu", 'is("pinned"))')
    assert "the host reads byte 20" in found.text
    assert "cudaMemcpyAsync" in found.text


def test_the_last_line_says_that_what_others_do_meanwhile_was_not_looked_at(
    built: dict[str, Linked],
) -> None:
    ran = _host(built, "waits.cu", "flag")
    last = programs.text(ran).splitlines()[-1]
    assert last.endswith(
        "0 errors; not covered: what the host and other streams do while the kernel waits for them"
    )
    assert programs.exit_code(ran, found=1) == programs.OK

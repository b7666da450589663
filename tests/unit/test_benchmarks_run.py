"""`make bench`: its table holds, a name that is not known and a run past its limit are said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.benchmark_modules import loaded

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    monkeypatch.setenv("CUASSAY_RESULTS", str(tmp_path))
    yield from loaded(monkeypatch, "run", "bench_table")


def _row(bench: ModuleType, source: str, **more: object) -> object:
    given = {"name": "one", "what": "", "result": "one", "about_s": 1, "limit_s": 30, "least_s": 0}
    return bench.Bench(command=("-c", source), **(given | more))


def test_every_row_names_a_script_that_is_there_and_a_time_within_its_limit(
    bench: ModuleType,
) -> None:
    assert len({row.name for row in bench.BENCHES}) == len(bench.BENCHES)
    for row in bench.BENCHES:
        assert row.command[0] == "-m" or (ROOT / row.command[0]).is_file(), row.name
        assert row.least_s <= row.about_s <= row.limit_s, row.name
        assert row.name in bench.listing()


def test_an_unknown_name_is_a_usage_error(
    bench: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(["no-such"])
    assert ended.value.code == 2
    assert "no measurement named no-such; there are: roundtrip" in capsys.readouterr().out


def test_what_needs_a_gpu_is_passed_over_and_named(
    bench: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.chosen(["races"], "all", 0) == []
    assert "races: passed over, needs 1 GPU(s), 0 here" in capsys.readouterr().out
    assert {row.place for row in bench.chosen([], "gpu", 1)} == {"gpu", "both"}


def test_failures_and_limits_are_told_from_success(bench: ModuleType, tmp_path: Path) -> None:
    rows = [
        _row(bench, "print('measured')"),
        _row(bench, "raise SystemExit(3)", name="two"),
        _row(bench, "import time; time.sleep(600)", name="three", limit_s=0.2),
    ]
    found = bench.Queue(tmp_path, None).run(rows, 1)
    assert [ending.code for ending in found] == [0, 3, None]
    assert [ending.good for ending in found] == [True, False, False]
    assert (tmp_path / "one.log").read_text() == "measured\n"
    assert "stopped at its limit" in found[2].line()


def test_nothing_begins_that_cannot_end_in_time(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [_row(bench, "pass", least_s=1000.0), _row(bench, "pass", name="two")]
    found = bench.Queue(tmp_path, 60.0).run(rows, 2)
    assert [ending.bench.name for ending in found] == ["two"]
    assert "one: not begun, needs 1000 s" in capsys.readouterr().out


def test_the_oldest_result_comes_first(bench: ModuleType, tmp_path: Path) -> None:
    assert bench.age(_row(bench, "pass")) == 0.0
    (tmp_path / "one-cpu.json").write_text("{}")
    assert bench.age(_row(bench, "pass")) > 0.0

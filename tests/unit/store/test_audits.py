"""Audit folders: what survives an end at any line, and which audit a word names."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

import pytest

from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.audit import Ending
from cuassay.store.audits import AuditFolder, known_audits, open_audit, read_audit, results_of
from tests.support import audits


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    return tmp_path


def _begun(path: Path) -> AuditFolder:
    folder = AuditFolder(path)
    folder.begin(audits.header(), [audits.item(n) for n in range(3)], audits.audit().oddities)
    return folder


def test_what_ended_is_read_in_the_order_of_the_plan_and_the_last_line_of_an_item_counts(
    tmp_path: Path,
) -> None:
    folder = _begun(tmp_path / "a")
    results = [audits.result(n) for n in range(3)]
    folder.keep(results[2])
    folder.keep(dataclasses.replace(results[0], reason="first"))
    folder.keep(dataclasses.replace(results[0], reason="second"))
    found = read_audit(folder.path)
    assert [one.ending for one in found.results][1] is Ending.NOT_RUN
    assert found.results[0].reason == "second"
    assert found.results[2] == results[2]
    assert found.header == audits.header()
    assert found.oddities == audits.audit().oddities
    assert not found.finished_at


def test_a_result_of_other_files_and_a_line_cut_short_do_not_count(tmp_path: Path) -> None:
    folder = _begun(tmp_path / "a")
    old = dataclasses.replace(audits.result(0), item=audits.item(0, key="other"))
    folder.keep(old)
    with open(folder.path / "results.ndjson", "a") as file:
        file.write('{"item": {"id": "00000')
    found = read_audit(folder.path)
    assert {one.ending for one in found.results} == {Ending.NOT_RUN}
    assert len(results_of(folder.path)) == 1


def test_an_end_writes_the_findings_and_beginning_again_takes_it_back(tmp_path: Path) -> None:
    folder = _begun(tmp_path / "a")
    ended = dataclasses.replace(audits.audit(), finished_at="2026-01-02", wall_s=3.5)
    folder.finish(ended, [{"code": "NUM001"}, {"code": "ü"}])
    lines = (folder.path / "findings.jsonl").read_text().splitlines()
    assert [json.loads(line)["code"] for line in lines] == ["NUM001", "ü"]
    found = read_audit(folder.path)
    assert (found.finished_at, found.wall_s) == ("2026-01-02", 3.5)
    _begun(folder.path)
    assert not read_audit(folder.path).finished_at


def test_a_line_that_a_full_disk_refused_is_written_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = _begun(tmp_path / "a")
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "cuassay"):

        def full(path: Path, line: str) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr("cuassay.store.audits.append_line", full)
        folder.keep(audits.result(0))
        folder.keep(audits.result(1))
    assert caplog.text.count("cannot be written") == 1
    folder.keep(audits.result(2))
    assert list(results_of(folder.path)) == [audits.item(n).id for n in range(3)]


def test_attempts_are_those_at_the_item_as_it_is_oldest_first(tmp_path: Path) -> None:
    folder = _begun(tmp_path / "a")
    one = audits.item(1)
    places = [folder.run_folder(one, number) for number in (2, 10, 1)]
    for place in (*places, folder.run_folder(audits.item(1, key="f" * 64), 3)):
        place.mkdir()
    assert [number for number, _ in folder.attempts(one)] == [1, 2, 10]
    assert folder.attempts(audits.item(2)) == ()


def test_an_audit_is_named_by_its_folder_its_beginning_or_as_the_last(home: Path) -> None:
    for name in ("20260101-a", "20260102-b", "20260102-c"):
        _begun(home / "audits" / name)
    assert [path.name for path in known_audits()] == ["20260101-a", "20260102-b", "20260102-c"]
    assert open_audit("last").name == "20260102-c"
    assert open_audit("20260101").name == "20260101-a"
    assert open_audit(str(home / "audits" / "20260102-b")).name == "20260102-b"
    with pytest.raises(UsageError, match="is ambiguous: 2 fit"):
        open_audit("20260102")
    with pytest.raises(UnknownNameError, match="20260102-c"):
        open_audit("2027")
    with pytest.raises(UsageError, match="is not an audit folder"):
        open_audit(str(home))


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = _begun(tmp_path / "a")
    (folder.path / "audit.json").write_text('{"schema": 9}')
    with pytest.raises(UsageError, match="schema 9, expected 1"):
        read_audit(folder.path)

"""The index over runs and audits: up to date, rebuilt, migrated, fast; and what is asked of it."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.audit import Audit
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision, Verdict
from cuassay.report import audit_diff
from cuassay.store import index, questions
from cuassay.store.audits import AuditFolder
from cuassay.store.runs import RunFolder
from tests.support import audits, samples


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def _keep_run(verdict: Verdict) -> RunFolder:
    run = RunFolder.create(TrialJob(problem="p", candidate="k.py"))
    for event in samples.events(verdict):
        run.append(event)
    run.close()
    return run


def _keep_audit(path: Path, audit: Audit) -> Path:
    folder = AuditFolder(path)
    folder.path.mkdir(parents=True)
    folder.begin(audit.header, [r.item for r in audit.results], audit.oddities)
    for result in audit.results:
        folder.keep(result)
    return path


def _ask(name: str, argument: str | None = None, *, limit: int = 50) -> list[dict[str, object]]:
    with index.opened() as connection:
        names, rows = questions.answer(connection, name, argument, limit=limit)
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_runs_and_audits_are_found_and_forgotten_with_their_folders(tmp_path: Path) -> None:
    run = _keep_run(samples.rejected())
    _keep_audit(tmp_path / "home" / "audits" / "20260101-a", audits.audit(6))
    assert len(_ask("history", samples.rejected().digest[:12])) == 1
    assert {row["family"] for row in _ask("families")} >= {"norm", "attention"}
    assert len(_ask("missed")) == 1 + 1  # the sample, and k1 of the audit
    for file in run.path.iterdir():
        if file.is_file():
            file.unlink()
    assert _ask("history", samples.rejected().digest[:12]) == []


def test_an_audit_elsewhere_stays_known(tmp_path: Path) -> None:
    place = _keep_audit(tmp_path / "here", audits.audit(6))
    with index.opened() as connection:
        index.update(connection, extra=(place,))
    assert _ask("undecided")
    (place / "results.ndjson").unlink()
    assert _ask("undecided") == []


def test_what_changed_is_read_again_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _keep_audit(tmp_path / "home" / "audits" / "a", audits.audit(2))
    _ask("families")
    read: list[Path] = []
    whole = index._read_in

    def reading(connection: sqlite3.Connection, path: Path) -> None:
        read.append(path)
        whole(connection, path)

    monkeypatch.setattr(index, "_read_in", reading)
    _ask("families")
    assert read == []
    AuditFolder(place).keep(audits.result(4))
    assert len(_ask("classes")) == 1
    assert read == [place]


def test_every_saved_question_is_answered(tmp_path: Path) -> None:
    _keep_run(samples.rejected())
    _keep_audit(tmp_path / "home" / "audits" / "a", audits.audit(12, findings=3))
    for name, question in questions.QUESTIONS.items():
        found = _ask(name, "k1" if question.takes else None)
        assert found or name == "flaky", name
    worst = _ask("worst", limit=2)
    assert len(worst) == 2
    assert worst[0]["share"] >= worst[1]["share"]  # type: ignore[operator]


def test_a_finding_that_shows_now_and_then_is_flaky() -> None:
    shown, clean = samples.rejected(), samples.accepted()
    for verdict in (shown, clean):
        _keep_run(_same(verdict))
    found = _ask("flaky")
    assert {row["code"] for row in found} == {f.code for f in shown.findings}
    assert {(row["shown"], row["trials"]) for row in found} == {(1, 2)}
    assert len(_ask("history", "same")) == 2


def _same(verdict: Verdict) -> Verdict:
    import dataclasses

    return dataclasses.replace(verdict, digest="same", problem="p", candidate="k")


def test_an_old_index_is_migrated_and_keeps_its_questions(tmp_path: Path) -> None:
    _keep_run(samples.rejected())
    file = index.index_path()
    file.parent.mkdir(parents=True, exist_ok=True)
    for version in range(len(index.STEPS)):
        with sqlite3.connect(file) as connection:
            for step in index.STEPS[:version]:
                connection.executescript(step)
            connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        assert len(_ask("classes")) >= 1
        with index.opened() as opened:
            assert opened.execute("PRAGMA user_version").fetchone()[0] == len(index.STEPS)
        for part in file.parent.glob("index.sqlite*"):
            part.unlink()


def test_rows_of_an_old_index_survive_the_migration_or_are_read_again() -> None:
    run = _keep_run(samples.rejected())
    file = index.index_path()
    with sqlite3.connect(file) as connection:
        connection.executescript(index.STEPS[0])
        connection.execute("INSERT INTO sources VALUES (?, ?)", (str(run.path), "old"))
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert _ask("missed")[0]["run"] == str(run.path)  # a column that the old one lacked


def test_a_newer_index_is_left_alone() -> None:
    index.index_path().parent.mkdir(parents=True)
    with sqlite3.connect(index.index_path()) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(UsageError, match="has schema 99"), index.opened():
        pass


def test_a_damaged_index_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    _keep_run(samples.rejected())
    index.index_path().parent.mkdir(parents=True, exist_ok=True)
    index.index_path().write_bytes(b"not a database, but long enough to look like a file" * 50)
    assert _ask("classes")
    assert "is damaged" in caplog.text


def _worker(number: int) -> None:
    with index.opened(refresh=False) as connection:
        index.update(connection, extra=(Path(f"a{number}"),))


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    for number in range(4):
        _keep_audit(tmp_path / f"a{number}", audits.audit(6))
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with index.opened(refresh=False) as connection:
        assert index.rows(connection, "SELECT count(*) FROM sources")[1] == [(4,)]


def test_questions_only_read(capsys: pytest.CaptureFixture[str]) -> None:
    _keep_run(samples.rejected())
    assert main(["query", "--sql", "DELETE FROM runs"]) == 2
    assert main(["query", "--sql", "SELECT absent FROM runs"]) == 2
    assert "no such column" in capsys.readouterr().err
    assert main(["query", "--sql", "SELECT verdict FROM runs", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["columns"], document["rows"]) == (["verdict"], [["REJECTED"]])


def test_the_command_lists_its_questions_and_says_mistakes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["query"]) == 0
    assert "history DIGEST or NAME" in capsys.readouterr().out
    assert main(["query", "familes"]) == 2
    assert "did you mean 'families'" in capsys.readouterr().err
    assert main(["query", "history"]) == 2
    assert main(["query", "families", "x"]) == 2
    with pytest.raises(UnknownNameError), index.opened() as connection:
        questions.answer(connection, "nope", None, limit=1)


def test_hostile_text_stays_text(capsys: pytest.CaptureFixture[str]) -> None:
    _keep_run(samples.nasty())
    for arguments in (["worst"], ["worst", "--json"], ["missed"]):
        assert main(["query", *arguments]) == 0
    assert "\x1b" not in capsys.readouterr().out


def _changed(audit: Audit, **verdicts: Decision) -> Audit:
    import dataclasses

    results = [
        dataclasses.replace(r, verdict=verdicts.get(r.item.candidate_name, r.verdict), findings=())
        if r.item.candidate_name in verdicts
        else r
        for r in audit.results
    ]
    return dataclasses.replace(audit, results=tuple(results))


def test_two_audits_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = audits.audit(6)
    new = _changed(old, k0=Decision.REJECTED, k1=Decision.ACCEPTED)
    found = audit_diff.difference(old, new)
    assert [c.new.item.candidate_name for c in found.regressions] == ["k0"]
    assert found.changes[1].gone == ("NUM001",)
    assert (found.same, found.added, found.removed) == (5, (), ())
    _keep_audit(tmp_path / "old", old)
    _keep_audit(tmp_path / "new", new)
    assert main(["diff", "old", "new"]) == 1
    assert "ACCEPTED -> REJECTED" in capsys.readouterr().out
    assert main(["diff", "new", "new", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same"] == 7
    assert main(["diff", "old", "absent"]) == 2


def test_two_runs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = _keep_run(_same(samples.accepted())), _keep_run(_same(samples.rejected()))
    assert main(["diff", good.id, bad.id]) == 1
    assert "+" in capsys.readouterr().out
    assert main(["diff", bad.id, good.id]) == 0

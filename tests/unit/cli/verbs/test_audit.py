"""`cuassay audit` from the command line over a fake judge: exit codes, streams, documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.report.terminal import audit as audit_terminal
from tests.support import audits, fake_judge, trees
from tests.support.snapshot import assert_snapshot


@pytest.fixture(autouse=True)
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    fake_judge.install(monkeypatch)


def _tree(root: Path, **lines: str) -> str:
    trees.native(root / "p")
    for name, line in lines.items():
        trees.write(root / "p" / "candidates" / f"{name}.py", f"{line}\n")
    return str(root)


def test_the_whole_report() -> None:
    text = "\n".join(audit_terminal.lines(audits.audit(24, findings=2)))
    assert_snapshot("audit_report.txt", text)


def test_json_has_what_the_interface_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = _tree(tmp_path / "t", good="# accept theirs", bad="# reject # theirs")
    assert main(["audit", tree, "--device", "cpu", "--json", "--run", "audit"]) == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    found = {c["candidate"]: c for c in document["candidates"]}
    assert found["bad"]["verdict"] == "REJECTED"
    assert found["bad"]["findings"][0]["code"]
    assert found["good"]["conditions"] is not None
    assert found["good"]["problem"] == "twice"
    assert document["totals"]["faulty_share"] == 0.5
    assert document["run"] == str(tmp_path / "audit")
    assert "[2/2]" in err


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ({"a": "# accept"}, 0),
        ({"a": "# accept", "b": "# stop"}, 3),
        ({"a": "# accept", "b": "# unreadable"}, 3),
        ({"a": "# reject", "b": "# stop"}, 1),
    ],
)
def test_exit_codes(lines: dict[str, str], code: int, tmp_path: Path) -> None:
    assert main(["audit", _tree(tmp_path / "t", **lines), "--device", "cpu", "-q"]) == code


def test_a_dry_run_judges_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = _tree(tmp_path / "t", a="# accept", b="# accept")
    trees.sol(tmp_path / "t" / "lonely", "lonely")
    assert main(["audit", tree, "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert_snapshot("audit_plan.txt", out.replace(str(tmp_path), "TREE"))
    assert err == ""
    assert not (tmp_path / "home" / "audits").exists()
    assert main(["audit", tree, "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [c["candidate_name"] for c in document["candidates"]] == ["a", "b"]


def test_run_alone_goes_on_with_the_same_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = _tree(tmp_path / "t", a="# accept", b="# accept")
    call = ["--device", "cpu", "--run", "audit"]
    assert main(["audit", tree, *call, "--limit", "1", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["candidates"]
    assert main(["audit", *call, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["candidates"]
    assert len(again) == 2
    assert again[0] == first[0]
    assert main(["audit", *call, "--profile", "deep"]) == 2
    assert "verdicts of the two cannot stand in one table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no TREE is given"),
        (["absent"], "absent does not exist"),
        (["TREE", "--budget", "soon"], "--budget 'soon' is no time"),
        (["TREE", "--only", "nothing*"], "holds no candidate to judge"),
        (["TREE", "--family", "nrm"], "unknown family in this tree 'nrm'"),
        (["TREE", "--run", "other"], "holds something that is no audit"),
        (["TREE", "--address", "auto"], "is for --executor ray"),
        (["TREE", "--seed", "-1"], "--seed -1 is out of range"),
    ],
)
def test_mistakes_are_one_message(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = _tree(tmp_path / "t", a="# accept")
    trees.write(tmp_path / "other" / "file", "")
    given = [tree if word == "TREE" else word for word in arguments]
    assert main(["audit", *given, "--device", "cpu"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_hostile_names_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.sol(tmp_path / "t" / "p", "p")
    trees.write(tmp_path / "t" / "p" / "candidates" / "k\x1b[31m.py", "# author: \x1b]0;x\x07\n#\n")
    main(["audit", str(tmp_path / "t"), "--device", "cpu"])
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err


def test_the_page_is_written_beside_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = _tree(tmp_path / "t", a="# reject")
    assert main(["audit", tree, "--device", "cpu", "--html", "a.html"]) == 1
    out, err = capsys.readouterr()
    assert "html report: a.html" in err
    assert "Why kernels are rejected" in out
    assert "REJECTED" in (tmp_path / "a.html").read_text()

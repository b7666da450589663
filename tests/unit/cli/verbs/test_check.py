"""`cuassay check` and `cuassay replay` over a fake engine: exit codes, streams, documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.model.device import Device
from cuassay.model.events import EngineStopped
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Profile, Verdict
from tests.support import fake_engine, samples
from tests.support.snapshot import assert_snapshot


@pytest.fixture(autouse=True)
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", "/home/user/.local/state/cuassay")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text("def run(x): return x\n")


_CALL = ["check", "kernel.py", "--problem", "embedding_rmsnorm_backward"]


@pytest.mark.parametrize(
    ("name", "verdict", "exit_code"),
    [
        ("accepted", samples.accepted(), 0),
        ("rejected", samples.rejected(), 1),
        ("inconclusive", samples.inconclusive(), 3),
        ("nasty", samples.nasty(), 1),
    ],
)
def test_whole_output(
    name: str,
    verdict: Verdict,
    exit_code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_engine.install(monkeypatch, verdict)
    assert main(_CALL) == exit_code
    out, err = capsys.readouterr()
    assert f"\n{verdict.decision.value}  " in out
    assert_snapshot(f"check_{name}.txt", out)
    assert err == ""  # a pipe gets no progress
    assert main([*_CALL, "--quiet"]) == exit_code
    out, err = capsys.readouterr()
    assert_snapshot(f"check_{name}_quiet.txt", out)
    assert (out.count("\n"), err) == (1, "")
    assert main([*_CALL, "--json"]) == exit_code
    assert_snapshot(f"check_{name}.json", capsys.readouterr().out)


def test_json_is_the_only_thing_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.install(monkeypatch, samples.rejected())
    assert main([*_CALL, "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"] == "REJECTED"
    assert "DET001" in err
    assert main([*_CALL, "--json", "--quiet"]) == 1
    assert capsys.readouterr().err == ""


def test_the_job_holds_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    options = ["--profile", "deep", "--device", "cuda:1", "--seed", "7", "--strict"]
    assert main([*_CALL, *options, "--require", "shapes, deterministic,shapes"]) == 0
    assert fake.jobs == [
        TrialJob(
            problem="embedding_rmsnorm_backward",
            candidate="kernel.py",
            profile=Profile.DEEP,
            device=Device("cuda:1"),
            seed=7,
            strict=True,
            require=("shapes", "deterministic"),
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["check", "kernl.py", "--problem", "p"], ["no candidate at 'kernl.py'", "'kernel.py'?"]),
        (["check", "kernel.py"], ["--problem is missing"]),
        ([*_CALL, "--profile", "fast"], ["'fast' is not one of 'quick', 'standard', 'deep'"]),
        ([*_CALL, "--device", "cuda0"], ["--device 'cuda0'", "did you mean 'cuda'?"]),
        ([*_CALL, "--seed", "-1"], ["--seed -1 is out of range", "0 to 2**63 - 1"]),
        ([*_CALL, "--seed", "x"], ["'x' is not a valid integer"]),
        ([*_CALL, "--require", "shape"], ["'shape': did you mean 'shapes'?"]),
        ([*_CALL, "--require", "collectives"], ["No check covers any other"]),
        ([*_CALL, "--html", "."], ["is a folder", "report.html"]),
        ([*_CALL, "--html", "no/where.html"], ["does not exist; make it first"]),
        ([*_CALL, "--jsn"], ["No such option '--jsn'"]),
        (["chek"], ["No such command 'chek'", "check"]),
    ],
)
def test_a_mistake_costs_one_message(
    arguments: list[str],
    parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cuassay: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for part in parts:
        assert part in err
    assert fake.jobs == []


def test_a_mistake_is_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "absent.py", "--problem", "p", "--json"]) == 2
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["verdict"], found["exit_code"], found["error"]["kind"]) == (None, 2, "usage")
    assert "absent.py" in found["error"]["message"]
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["--format", "agent"], ["--format=agent"]])
def test_a_mistake_is_told_to_an_agent(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "absent.py", "--problem", "p", *words]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["findings"]) == (None, [])
    assert "absent.py" in found["error"]


@pytest.mark.parametrize(("exit_code", "verdict"), [(2, None), (3, "INCONCLUSIVE")])
def test_a_trial_that_was_stopped(
    exit_code: int,
    verdict: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = samples.events(samples.rejected())[:5]
    stopped = EngineStopped(exit_code=exit_code, message="no \x1b[31mnvcc: install it")
    fake_engine.install(monkeypatch, events=(*seen, stopped))
    assert main(_CALL) == exit_code
    assert capsys.readouterr().err.endswith("cuassay: no nvcc: install it\n")
    assert main([*_CALL, "--json"]) == exit_code
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["exit_code"]) == (verdict, exit_code)
    assert found["run"] == samples.RUN


def test_a_fault_of_the_judge_shows_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = "Traceback (most recent call last):\n  boom\nZeroDivisionError: x\n"
    stopped = EngineStopped(exit_code=3, message="ZeroDivisionError: x", traceback=trace)
    fake_engine.install(monkeypatch, events=(stopped,))
    assert main(_CALL) == 3
    err = capsys.readouterr().err
    assert err.index("Traceback") < err.index("cuassay: ZeroDivisionError") < err.index("report it")


def test_events_that_just_end_are_no_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.install(monkeypatch, events=samples.events(samples.accepted())[:-1])
    assert main(_CALL) == 3
    assert "ended without a verdict" in capsys.readouterr().err


def test_an_interruption_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = samples.events(samples.rejected())[:5]
    fake_engine.install(monkeypatch, events=seen, error=KeyboardInterrupt())
    assert main([*_CALL, "--quiet", "--json"]) == 130
    out, err = capsys.readouterr()
    assert (
        err == f"cuassay: interrupted: no verdict; what was seen so far is in run {samples.RUN}\n"
    )
    found = json.loads(out)
    assert (found["verdict"], found["error"]["kind"]) == (None, "interrupted")


def test_a_fault_of_ours_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.install(monkeypatch, error=RuntimeError("unexpected"))
    assert main([*_CALL, "--json"]) == 3
    out, err = capsys.readouterr()
    assert "Traceback" in err
    assert "github.com/cuassay/cuassay/issues" in err
    assert json.loads(out)["error"]["kind"] == "internal"


def test_html_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.install(monkeypatch, samples.rejected())
    assert main([*_CALL, "--html", "report.html"]) == 1
    assert capsys.readouterr().err.endswith("HTML report: report.html\n")
    assert "REJECTED" in (tmp_path / "report.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel.py", "report.html"]


def test_html_on_a_full_disk_costs_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.install(monkeypatch, samples.accepted())

    def full(path: Path, text: str, **_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert main([*_CALL, "--quiet", "--html", "report.html"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("ACCEPTED")
    assert err.count("\n") == 1
    assert "No space left on device; the verdict above stands" in err
    assert not (tmp_path / "report.html").exists()


def test_replay_asks_for_the_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_engine.install(monkeypatch, samples.rejected())
    assert main(["replay", "last/F1", "--device", "cpu"]) == 1
    assert fake.replays == [("last/F1", "cpu")]
    assert "own rule" not in capsys.readouterr().out
    assert main(["replay", "last/F1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["schema"] == "cuassay/verdict/1"


def test_replay_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    assert main(["replay", "last"]) == 2


def test_forms_go_to_files_and_one_to_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.install(monkeypatch, samples.rejected())
    files = ["--format", "sarif=out.sarif", "--format", "junit=out.xml", "--format", "html=o.html"]
    assert main([*_CALL, *files, "--format", "agent"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"] == "cuassay/agent/1"
    assert err.endswith("SARIF report: out.sarif\nJUnit report: out.xml\nHTML report: o.html\n")
    assert json.loads((tmp_path / "out.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "out.xml").read_text().startswith("<?xml")
    assert "REJECTED" in (tmp_path / "o.html").read_text()


def test_github_gets_annotations_and_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine.install(monkeypatch, samples.rejected())
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert main([*_CALL, "--quiet", "--format", "github"]) == 1
    assert "\n::error file=kernel.py,line=1,title=cuassay NUM002" in capsys.readouterr().out
    assert "❌ REJECTED" in (tmp_path / "summary.md").read_text()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert main([*_CALL, "--quiet", "--format", "github"]) == 1
    assert "job summary" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--format", "sariff"], "'sariff': did you mean 'sarif'?"),
        (["--format", "sarif="], "expected a file after '='"),
        (["--format", "terminal=x"], "goes to stdout only"),
        (["--format", "sarif", "--json"], "sarif and json both go to stdout"),
        (["--format", "junit=."], "is a folder"),
    ],
)
def test_a_form_that_cannot_be(
    arguments: list[str],
    part: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    assert main([*_CALL, *arguments]) == 2
    assert part in capsys.readouterr().err
    assert fake.jobs == []


def test_a_stopped_trial_leaves_files_that_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = EngineStopped(exit_code=3, message="no nvcc")
    fake_engine.install(monkeypatch, events=(stopped,))
    assert main([*_CALL, "--json", "--format", "junit=o.xml", "--format", "sarif=o.sarif"]) == 3
    assert "no verdict: no nvcc" in (tmp_path / "o.xml").read_text()
    run = json.loads((tmp_path / "o.sarif").read_text())["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert json.loads(capsys.readouterr().out)["exit_code"] == 3
    assert main([*_CALL, "--format", "agent"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["error"]) == ("INCONCLUSIVE", "no nvcc")
    fake_engine.install(monkeypatch, events=(EngineStopped(exit_code=2, message="no file"),))
    assert main([*_CALL, "--format", "agent", "--format", "json=o.json"]) == 2
    assert json.loads(capsys.readouterr().out)["verdict"] is None
    kept = json.loads((tmp_path / "o.json").read_text())
    assert (kept["error"]["kind"], kept["exit_code"]) == ("usage", 2)


def test_a_kernel_may_be_judged_for_a_gpu_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = fake_engine.install(monkeypatch, samples.accepted())
    assert main([*_CALL, "--arch", "sm_100"]) == 0
    assert [(job.device, job.arch) for job in engine.jobs] == [(Device("cpu"), "sm_100")]
    assert main([*_CALL, "--arch", "b200"]) == 2
    assert "expected one such as sm_100" in capsys.readouterr().err
    assert main([*_CALL, "--arch", "sm_100", "--device", "cuda"]) == 2
    assert "--arch judges on the CPU" in capsys.readouterr().err

"""Whole trials on the CPU: what a sidecar changes, what a verdict says was tried."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.engine.run import check, replay, show_problem
from cuassay.formats import load_problem
from cuassay.judge.kept import snapshot
from cuassay.model.device import CPU
from cuassay.model.domain import Real
from cuassay.model.events import EngineFinished, EngineStopped
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision, Profile, Verdict
from cuassay.store.runs import open_run

# Each asks for several verdicts or messages, none for how a judge starts or ends.
pytestmark = pytest.mark.usefixtures("judge_here")
DATA = Path(__file__).parents[2] / "data" / "formats"
# Right for x >= 0 alone: the square root of a negative number is NaN here, of its size there.
_DEFINITION = {
    "name": "root",
    "axes": {"rows": {"type": "var"}, "width": {"type": "const", "value": 16}},
    "inputs": {"x": {"shape": ["rows", "width"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["rows", "width"], "dtype": "float32"}},
    "reference": "def run(x):\n    return x.abs().sqrt()\n",
}
_KERNEL = "import torch\n\ndef run(x):\n    return torch.sqrt(x)\n"
_SIDECAR = """
[domains.x]
kind = "positive"
[axes.rows]
min = 1
max = 64
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    (made / "definition.json").write_text(json.dumps(_DEFINITION))
    lines = [{"uuid": str(rows), "axes": {"rows": rows}, "inputs": {}} for rows in (8, 24)]
    (made / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (made / "kernel.py").write_text(_KERNEL)
    return made


def _job(folder: Path) -> TrialJob:
    return TrialJob(
        problem=str(folder),
        candidate=str(folder / "kernel.py"),
        profile=Profile.QUICK,
        device=CPU,
        seed=3,
    )


def _verdict(job: TrialJob) -> Verdict:
    *_, last = check(job)
    assert isinstance(last, EngineFinished), last
    return last.verdict


def _stopped(job: TrialJob) -> EngineStopped:
    *_, last = check(job)
    assert isinstance(last, EngineStopped), last
    assert last.traceback == ""
    return last


def test_a_sidecar_turns_a_rejection_outside_the_real_domain_into_an_acceptance(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _verdict(_job(folder)).decision is Decision.REJECTED
    (folder / "cuassay.toml").write_text(_SIDECAR)
    call = ["check", str(folder / "kernel.py"), "--problem", str(folder), "--profile", "quick"]
    assert main([*call, "--device", "cpu", "--seed", "3", "-v"]) == 0
    out = capsys.readouterr().out
    assert "\n  tried       rows: " in out
    assert "cuassay.toml overrides domains.x, axes.rows" in out
    verdict = open_run("last").verdict()
    assert verdict is not None
    assert verdict.decision is Decision.ACCEPTED
    assert "cuassay.toml overrides domains.x, axes.rows" in verdict.notes
    (rows,) = verdict.coverage
    assert rows.axis == "rows"
    assert {8, 24} <= set(rows.values)
    assert rows.values == tuple(sorted(set(rows.values)))
    assert 1 <= rows.values[0] <= rows.values[-1] <= 64
    assert {"NUM001", "SHP001", "API001"} <= set(rows.checks)


def test_a_replay_judges_by_the_overridden_problem(folder: Path) -> None:
    (folder / "cuassay.toml").write_text('domains.x = { kind = "real", low = -1.0, high = 0.5 }')
    rejected = _verdict(_job(folder))
    assert rejected.decision is Decision.REJECTED
    (folder / "cuassay.toml").write_text(_SIDECAR)  # the file has moved on, the run has not
    kept, _ = snapshot.read_snapshot(open_run(rejected.run).path)
    assert kept.input("x").domain == Real(low=-1.0, high=0.5)
    assert kept.digest != load_problem(str(folder)).digest
    *_, last = replay(f"{rejected.run}/{rejected.findings[0].id}")
    assert isinstance(last, EngineFinished)
    assert last.verdict.decision is Decision.REJECTED
    assert last.verdict.coverage == ()


def test_the_command_line_shows_where_sizes_come_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cuassay.toml").write_text(_SIDECAR)
    assert main(["problem", "show", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "rows   1 to 64  sidecar cuassay.toml" in out
    assert "positive in [0.001, 1000.0] (sidecar cuassay.toml)" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[axes.rows]\nmax = 4", "workload '8' has rows = 8, outside 1 to 4"),
        ("domain.x.kind = 'real'", "unknown key 'domain': did you mean 'domains'?"),
        ("[domains.x]\nkind = 'positive'\nlow = 2\nhigh = 1", "low 2.0 is above high 1.0"),
    ],
)
def test_a_mistake_in_the_file_ends_with_one_message_and_code_2(
    folder: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cuassay.toml").write_text(text)
    assert main(["problem", "show", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"cuassay: {folder / 'cuassay.toml'}: ")
    assert message in err
    assert len(err.splitlines()) == 1


def test_constraints_that_contradict_each_other_end_with_code_2(folder: Path) -> None:
    rules = {"constraints": ["rows >= 9", "rows <= 8"]}
    (folder / "definition.json").write_text(json.dumps(_DEFINITION | rules))
    stopped = _stopped(_job(folder))
    assert stopped.exit_code == 2
    assert "no workload keeps its constraints: '8' (rows = 8) breaks 'rows >= 9'" in stopped.message


def test_a_generator_that_raises_is_no_verdict_on_the_kernel(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(DATA / "scatter_rows", tmp_path / "scatter_rows"))
    text = json.loads((folder / "definition.json").read_text())
    kernel, head = text["reference"], "axes_and_scalars, device):\n"
    text["reference"] = kernel.replace(head, f"{head}    raise ValueError('no rows')\n")
    (folder / "definition.json").write_text(json.dumps(text))
    (folder / "kernel.py").write_text(kernel)
    stopped = _stopped(_job(folder))
    assert stopped.exit_code == 3
    assert "'make_inputs' of problem 'scatter_rows' raised ValueError: no rows" in stopped.message


def test_a_generator_that_leaves_the_stated_domain_is_no_verdict_either(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(DATA / "scatter_rows", tmp_path / "scatter_rows"))
    reference = json.loads((folder / "definition.json").read_text())["reference"]
    (folder / "kernel.py").write_text(reference)
    (folder / "cuassay.toml").write_text('domains.values = { kind = "positive" }')
    stopped = _stopped(_job(folder))
    assert stopped.exit_code == 3
    assert "which is not positive in [0.001, 1000.0] (sidecar cuassay.toml)" in stopped.message


def test_a_native_generator_outside_the_declared_domain(tmp_path: Path) -> None:
    text = (DATA / "native.py").read_text().replace("torch.zeros(rows,", "5 + torch.zeros(rows,")
    (tmp_path / "native.py").write_text(text)
    kernel = "import torch\ndef run(ids, values):\n    return values\n"
    (tmp_path / "kernel.py").write_text(kernel)
    stopped = _stopped(replace(_job(tmp_path), problem=f"{tmp_path / 'native.py'}:counted"))
    assert stopped.exit_code == 3
    assert "made 5 for input 'ids', which is not an index into slots" in stopped.message


def test_a_problem_without_a_sidecar_says_what_an_experiment_found() -> None:
    ids = show_problem(str(DATA / "scatter_rows"))["domains"]["ids"]
    assert (ids["type"], ids["axis"], ids["source"]) == ("Index", "slots", "experiment")

"""`cuassay certificate sign`, `covers` and `revoke` over kept runs."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.formats import load_candidate, load_problem
from cuassay.model import serial
from cuassay.model.jobs import ReplayJob, RunJob, TrialJob
from cuassay.model.verdict import Verdict
from cuassay.store.runs import RunFolder
from tests.support import samples

_KERNEL = "import torch\ndef run(x, weight, eps):\n    return x\n"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(_KERNEL)


_JOB = TrialJob(problem="rmsnorm", candidate="kernel.py")
_REPLAY = ReplayJob(problem="rmsnorm", candidate="kernel.py", finding="F1")


def _kept(verdict: Verdict, job: RunJob = _JOB) -> str:
    run = RunFolder.create(job)
    problem = load_problem("rmsnorm")
    candidate = load_candidate("kernel.py", problem)
    (run.path / "problem.json").write_text(serial.dumps(problem))
    (run.path / "candidate.json").write_text(serial.dumps(candidate))
    for event in samples.events(verdict):
        run.append(event)
    run.close()
    return run.id


def test_attest_covers_revoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _kept(samples.accepted())
    assert main(["certificate", "sign", run, "--out", "k.cert.json"]) == 0
    out, err = capsys.readouterr()
    assert (out, "valid for 90 days" in err) == ("k.cert.json\n", True)
    assert main(["certificate", "covers", "k.cert.json", "kernel.py"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("VALID  kernel.py\n")
    assert "as long as: one stream, not captured" in out
    assert main(["certificate", "covers", "k.cert.json", "kernel.py", "--same-environment"]) == 1
    assert "certified with torch" in capsys.readouterr().out
    (tmp_path / "kernel.py").write_text(_KERNEL + "#")
    assert main(["certificate", "covers", "k.cert.json", "kernel.py", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["problems"]) == (False, ["kernel.py was changed"])
    (tmp_path / "kernel.py").write_text(_KERNEL)
    assert main(["certificate", "revoke", "k.cert.json", "--reason", "overflows"]) == 0
    assert main(["certificate", "covers", "k.cert.json", "kernel.py"]) == 1
    assert "this certificate is revoked: overflows" in capsys.readouterr().out


def test_an_unknown_key_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certificate", "sign", _kept(samples.accepted()), "--out", "c"]) == 0
    public = tmp_path / "home" / "keys" / "attest.pub.pem"
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "elsewhere"))
    assert main(["certificate", "covers", "c", "kernel.py"]) == 2
    assert "no key is trusted" in capsys.readouterr().err
    assert main(["certificate", "covers", "c", "kernel.py", "--key", str(public)]) == 0
    (tmp_path / "elsewhere" / "keys" / "trusted").mkdir(parents=True)
    (tmp_path / "elsewhere" / "keys" / "trusted" / "them.pem").write_bytes(public.read_bytes())
    assert main(["certificate", "covers", "c", "kernel.py"]) == 0


@pytest.mark.parametrize(
    ("verdict", "job", "part"),
    [
        (samples.rejected(), _JOB, "only ACCEPTED is certified"),
        (samples.accepted(), _REPLAY, "is a replay"),
        (
            samples.accepted(),
            dataclasses.replace(_JOB, seed=4),
            "a seed that is chosen proves nothing",
        ),
    ],
)
def test_what_is_not_certified(
    verdict: Verdict, job: RunJob, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certificate", "sign", _kept(verdict, job)]) == 2
    assert part in capsys.readouterr().err


def test_without_the_package_the_install_line_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _kept(samples.accepted())
    for name in [n for n in sys.modules if n.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert main(["certificate", "sign", run]) == 3
    assert "pip install 'cuassay[attest]'" in capsys.readouterr().err

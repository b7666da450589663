"""The other verbs, and a stdout that cannot be written."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cuassay import __version__
from cuassay.checks import registry
from cuassay.cli import probes
from cuassay.cli.main import cli, main
from cuassay.cli.probes import Probe
from cuassay.errors import CannotJudgeError, ProblemError
from cuassay.model.conditions import CONDITIONS, UNDECIDED
from cuassay.model.scope import SCOPE_CONDITIONS
from tests.support import fake_engine
from tests.support.snapshot import assert_snapshot

_ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", "/home/user/.local/state/cuassay")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize(
    "verb",
    [
        "",
        "check",
        "replay",
        "report",
        "certificate",
        "certificate sign",
        "certificate covers",
        "certificate revoke",
        "loop",
        "serve",
        "problem power",
        "changed",
        "explain",
        "doctor",
        "problem show",
    ],
)
def test_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--help"]) == 0
    assert_snapshot(f"help_{verb.replace(' ', '_') or 'all'}.txt", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ("train", "loop train"),
        ("attest", "certificate sign"),
        ("view", "report RUN --open"),
        ("diff", "report NEW --diff OLD"),
        ("power", "problem power"),
        ("mcp", "serve --mcp"),
    ],
)
def test_a_verb_of_an_earlier_version_says_where_it_is(
    earlier: str, now: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([earlier, "--help"]) == 2
    assert capsys.readouterr().err == f"cuassay: `cuassay {earlier}` is now `cuassay {now}`\n"


def test_options_of_another_form_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--profile", "quick"]) == 2
    assert "--profile belongs to --mcp" in capsys.readouterr().err
    assert main(["report", "last", "--port", "8000"]) == 2
    assert "--port is the port of --open" in capsys.readouterr().err
    assert main(["report", "a", "b", "--diff", "c"]) == 2
    assert "2 runs are given; --diff takes one" in capsys.readouterr().err
    for form in (["--html", "x.html"], ["--format", "sarif=x.sarif"]):
        assert main(["report", "a", "--diff", "c", *form]) == 2
        assert f"{form[0]}" in (said := capsys.readouterr().err)
        assert "--diff is shown as text, or as a document with --json" in said


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"cuassay {__version__}\n"


def test_no_verb_shows_the_help_and_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert (out, "Usage: cuassay" in err) == ("", True)


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "num001"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("NUM001: ")
    for heading in registry.HEADINGS:
        assert f"\n{heading}\n" in out


def test_explain_lists_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    out = capsys.readouterr().out
    assert all(f"{code:<9} " in out for code in registry.codes())


def test_the_skill_file_names_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--skill"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("---\nname: cuassay\ndescription: ")
    named = set(re.findall(r"`cuassay ([a-z]+)(?: ([a-z]+))?", text))
    assert {"check", "problem", "replay", "explain"} <= {verb for verb, _ in named}
    for verb, second in named:
        command = cli.commands[verb]
        assert not second or not isinstance(command, click.Group) or second in command.commands


def test_explain_of_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "NUM01"]) == 2
    assert "did you mean 'NUM001'?" in capsys.readouterr().err


def test_problem_show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake_engine.install(monkeypatch)
    assert main(["problem", "show", "rmsnorm"]) == 0
    assert_snapshot("problem_show.txt", capsys.readouterr().out)
    assert main(["problem", "show", "rmsnorm", "--json", "--strict"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == fake_engine.DOCUMENT | {"name": "rmsnorm", "strict": True}


def test_without_torch_a_problem_of_the_catalogue_is_shown_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = ("torch", "ptxsan")
    monkeypatch.setattr(
        "cuassay.cli.verbs.problem.importlib.util.find_spec",
        lambda name, find=importlib.util.find_spec: None if name in absent else find(name),
    )
    assert main(["problem", "show", "rmsnorm@float16"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("@problem(\n    axes=")
    assert "torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)" in out
    assert "rmsnorm_backward" not in out
    assert "pip install --no-deps 'torch<2.14'" in out
    assert "'cuassay[cpu]'" in out


@pytest.mark.parametrize(
    ("error", "exit_code", "kind"),
    [
        (ProblemError("unknown key 'required_match_ratio'"), 2, "usage"),
        (CannotJudgeError("the reference raised"), 3, "cannot_judge"),
    ],
)
def test_problem_show_fails_with_one_message(
    error: Exception,
    exit_code: int,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_engine.install(monkeypatch, error=error)
    assert main(["problem", "show", "p", "--json"]) == exit_code
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found == {"error": {"kind": kind, "message": str(error)}, "exit_code": exit_code}
    assert err == f"cuassay: {error}\n"


def _probes() -> Iterator[Probe]:
    yield Probe(name="python", ok=True, found="3.12.3")
    yield Probe(name="gpu", ok=False, found="\x1b[31mnone", costs="no CUDA", fix="get one")
    yield Probe(name="triton", ok=False, costs="no Triton", fix="-", packages=("judge",))
    yield Probe(name="nvcc", ok=False, costs="no nvcc", fix="pip install nvcc", packages=("nvcc",))


def test_doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("cuassay.cli.verbs.doctor.probes", _probes)
    monkeypatch.setattr("cuassay.cli.probes.shutil.which", lambda name: None)
    assert main(["doctor"]) == 0
    assert_snapshot("doctor.txt", capsys.readouterr().out)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [probe["name"] for probe in found["probes"]] == ["python", "gpu", "triton", "nvcc"]
    assert found["install"] == "pip install 'cuassay[cpu]' nvcc"


def _answers(packages: dict[str, str], torch: dict[str, object], why: str = "") -> object:
    def child(program: str) -> dict[str, object]:
        if "importlib.metadata" in program:
            return dict(packages)
        if "import torch" in program:
            return torch
        if program == probes._INTERPRETER:
            return {"why": why}
        return {"nvcc": "", "nvrtc": torch.get("nvrtc", "")}

    return child


@pytest.mark.parametrize(
    ("packages", "torch", "missing"),
    [
        ({}, {}, {*probes._NEEDS, "gpu", "nvrtc", "interpreter repair"}),
        (
            {**dict.fromkeys(probes._NEEDS, "2"), "ml_dtypes": "1"},
            {"cuda": "13.0", "device": "H200", "nvrtc": "libnvrtc.so.13"},
            set(),
        ),
        (
            {**dict.fromkeys(probes._NEEDS, "2"), "ml_dtypes": "1"},
            {"error": "ImportError: libcudart"},
            {"torch import", "gpu", "nvrtc"},
        ),
    ],
)
def test_probes_say_what_is_missing(
    packages: dict[str, str],
    torch: dict[str, object],
    missing: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "child", _answers(packages, torch))
    monkeypatch.setattr(probes, "_object", lambda command: {"user namespace": "yes"})
    monkeypatch.setattr(probes, "_output", lambda command: "580.95.05\n")
    monkeypatch.setattr("cuassay.cli.probes.shutil.which", lambda name: f"/usr/bin/{name}")
    found = list(probes.probes())
    assert {probe.name for probe in found if not probe.ok} - {"nvcc"} == missing
    assert all(probe.costs and probe.fix for probe in found if not probe.ok)


def test_a_child_that_fails_gives_an_empty_answer() -> None:
    assert probes.child("raise SystemExit(3)") == {}
    assert probes.child("print('noise'); print('{\"a\": 1}')") == {"a": 1}
    assert probes._output(["/does/not/exist"]) == ""


def test_required_conditions_are_those_that_checks_know() -> None:
    package = _ROOT / "src" / "cuassay"
    # One is known before any check: the problem is the candidate's own.
    sources = [*(package / "checks").rglob("*.py"), package / "formats" / "own_problem.py"]
    text = "\n".join(path.read_text() for path in sources)
    for name in set(CONDITIONS) - {
        *SCOPE_CONDITIONS,
        "benchmark",
        UNDECIDED,
    }:  # those are the verdict's own
        assert f'"{name}: ' in text


def _run(*arguments: str, stdout: int) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=str(_ROOT / "src"))
    return subprocess.run(
        [sys.executable, "-m", "cuassay", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        check=False,
    )


def test_a_closed_stdout_is_never_a_verdict() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = _run("explain", stdout=writer)
    finally:
        os.close(writer)
    assert done.returncode == 3
    assert done.stderr.startswith("cuassay: the reader of stdout closed it before the end")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_never_a_verdict() -> None:
    with open("/dev/full", "wb") as full:
        done = _run("explain", stdout=full.fileno())
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1

"""The run below compute-sanitizer: a stand-in for the tool, every way that it can end."""

from __future__ import annotations

import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cuassay.model import serial
from cuassay.model.candidate import Candidate, Convention, Language, SourceFile
from cuassay.model.device import CPU
from cuassay.model.scenario import Allocate, Call, Poison, Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import StepDone
from cuassay.sandbox import kernel_names
from cuassay.sandbox.host import sanitizer
from tests.support.fake_trial import FakeTrial, scaled_add

KERNEL = """
import torch, triton
@triton.autotune(configs=[], key=[])
@triton.jit
def add_rows(x): pass
def run(x, bias, gain): return x * gain + bias
"""
RECORD = "<ComputeSanitizerOutput><record/></ComputeSanitizerOutput>"
# A tool that runs its target and writes a report; `body` goes first.
TOOL = """#!{python}
import pathlib, subprocess, sys, time
def option(name): return pathlib.Path(sys.argv[sys.argv.index(name) + 1])
{body}
option("--save").write_text({report!r})
sys.exit(subprocess.call(sys.argv[sys.argv.index({python!r}):]))
"""


def candidate(text: str = KERNEL, language: Language = Language.PYTHON) -> Candidate:
    return Candidate(
        name="c",
        sources=(SourceFile(path="c.py", text=text),),
        entry_file="c.py",
        entry_function="run",
        language=language,
        convention=Convention.RETURNS,
    )


def tool(folder: Path, body: str = "", report: str = RECORD) -> str:
    path = folder / "compute-sanitizer"
    path.write_text(TOOL.format(python=sys.executable, body=body, report=report))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "private").mkdir()
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    return tmp_path


def facts(
    folder: Path, binary: str, *, limit_s: float = 60.0, text: str = KERNEL
) -> dict[str, str]:
    trial: FakeTrial = scaled_add()
    made = candidate(text)
    (case,) = trial.cases("small")[:1]
    scenario = Scenario(
        label="s",
        cases=(case,),
        steps=(Allocate(slot="a", case=0), Call(slot="a", result="r", poison=Poison.NONE)),
        timeout_s=limit_s,
        mode=Mode.MEMCHECK,
    )
    recipe: dict[str, Any] = {
        "candidate": serial.to_json(made),
        "problem": serial.to_json(trial.problem),
        "folder": str(folder / "cache"),
        "builder": "cuassay.build:load",
    }
    run = sanitizer.run_below(
        scenario,
        candidate=made,
        recipe=recipe,
        inputs=trial.inputs(case),
        device=CPU,
        binary=binary,
    )
    first, last = run.result.records
    assert isinstance(first, StepDone)
    assert isinstance(last, StepDone)
    assert list((folder / "private").iterdir()) == []  # nothing is left behind
    return dict(last.facts)


@pytest.mark.slow
def test_the_candidate_is_built_and_called_below_the_tool(folder: Path) -> None:
    plain = KERNEL.replace("import torch, triton", "import torch").replace(
        "@triton.autotune(configs=[], key=[])\n@triton.jit", "# @triton.jit"
    )
    found = facts(folder, tool(folder), text=plain + '"""\n@triton.jit\ndef add_rows(x): pass\n"""')
    assert found["status"] == sanitizer.DONE
    assert found["kernels"] == "add_rows"
    assert found["report"] == RECORD


def test_a_refused_device_is_named(folder: Path) -> None:
    body = 'print("========= Error: Device not supported. error 999"); sys.exit(1)'
    found = facts(folder, tool(folder, body))
    assert found["status"] == "the tool was refused: Error: Device not supported. error 999"


def test_a_tool_that_does_not_end_is_ended(folder: Path) -> None:
    found = facts(folder, tool(folder, "time.sleep(60)"), limit_s=0.5)
    assert found["status"] == "no end within 0.5 s"


def test_a_tool_that_fails_or_is_not_there_is_no_alarm(folder: Path) -> None:
    assert facts(folder, tool(folder, "sys.exit(9)"))["status"] == "exit code 9"
    assert facts(folder, "")["status"] == "compute-sanitizer is not installed"
    assert facts(folder, str(folder / "absent"))["status"].startswith("the tool cannot be started")


def test_candidates_without_kernels_are_not_run(folder: Path) -> None:
    found = facts(folder, "/nonexistent", text="def run(x, bias, gain): return x * gain + bias")
    assert found["status"] == "no kernels of its own"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('extern "C" __global__ void f(int* x) {}', ("f",)),
        ("__global__ void __launch_bounds__(256)\ng(const float* x, long n) {}", ("g",)),
        ("template <int N> __global__ __launch_bounds__(128, 2) void h(T x)", ("h",)),
        ("@triton.jit\ndef k(x):", ("k",)),
        ("@triton.jit(do_not_specialize=[1])\n@other\ndef k(x):", ("k",)),
        ("def f(x): return x", ()),
        ("@triton.jit\n" + "\n" * 200_000 + "x", ()),
        ("__global__ " * 20_000, ()),
    ],
    ids=[f"source{number}" for number in range(8)],
)
def test_names_of_kernels_are_read_from_sources(text: str, names: tuple[str, ...]) -> None:
    assert kernel_names.kernels_of(candidate(text)) == names


def test_the_command_line_names_the_tool_and_private_files(tmp_path: Path) -> None:
    made = sanitizer.command(Mode.RACECHECK, "/opt/cs", tmp_path)
    assert made[:3] == ["/opt/cs", "--tool", "racecheck"]
    assert str(tmp_path / "report.xml") in made
    assert made[-2:] == ["cuassay.sandbox.guest.process.sanitizer_child", str(tmp_path)]

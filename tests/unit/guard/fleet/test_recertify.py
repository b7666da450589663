"""Re-certification: `cuassay check` of what runs, on what it was seen to do."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import cuassay
from cuassay.cli.main import main
from cuassay.errors import ProblemError
from cuassay.formats import load_problem
from cuassay.judge import trial_job
from cuassay.judge.bench import TrialPlan
from cuassay.model.domain import Real
from cuassay.model.problem import Problem, ScalarSource, TensorSpec
from cuassay_guard.fleet import registry
from cuassay_guard.fleet.recertify import problem_of
from cuassay_guard.fleet.status import StatusFile
from tests.support.guards import QUIET

_KERNEL = """
import cuassay, torch

@cuassay.guard(problem="rmsnorm", capsules=None, oracle="local", max_overhead=None, name="norm")
def norm(x, weight, eps):
    out = torch.nn.functional.rms_norm(x.float(), x.shape[-1:], weight.float(), eps).to(x.dtype)
    {fault}
    return out
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quiet_guards: None) -> None:
    monkeypatch.setattr(registry, "_watches", type(registry._watches)())
    monkeypatch.setenv("CUASSAY_GUARD_STATUS", str(tmp_path / "status"))
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


def _module(folder: Path, fault: str = "") -> Any:
    import importlib.util

    path = folder / "production.py"
    path.write_text(_KERNEL.format(fault=fault or "pass"))
    spec = importlib.util.spec_from_file_location(f"production{abs(hash(folder))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _recorded(folder: Path, fault: str = "") -> Path:
    """Run a guarded kernel on float16 of two shapes; return the folder of records."""
    module = _module(folder, fault)
    with module.norm:
        for rows in (4, 8):
            module.norm(torch.full((rows, 64), 3.0).half(), torch.ones(64).half(), 1e-5)
    StatusFile().write()
    return folder / "seen"


def test_a_record_becomes_a_problem_of_what_was_seen(tmp_path: Path) -> None:
    (record,) = _recorded(tmp_path).glob("*.json")
    made = problem_of(record).__cuassay_problem__  # type: ignore[attr-defined]
    assert isinstance(made, Problem)
    assert [dict(workload.axes) for workload in made.workloads] == [
        {"rows": 4, "hidden": 64}, {"rows": 8, "hidden": 64},
    ]  # fmt: skip
    assert made.workloads[0].sources["eps"] == ScalarSource(value=1e-5)
    rows, hidden = made.var_axes()
    assert ((rows.minimum, rows.maximum), (hidden.minimum, hidden.maximum)) == ((4, 8), (64, 64))
    x = made.inputs[0]
    assert isinstance(x, TensorSpec)
    assert (x.dtype.value, x.domain) == ("float16", Real(low=-4.0, high=4.0))
    assert made.outputs[0].dtype.value == "float16"
    assert made.reference == load_problem("rmsnorm").reference


def test_records_outlive_processes_and_add_up(tmp_path: Path) -> None:
    (record,) = _recorded(tmp_path).glob("*.json")
    module = _module(tmp_path)
    with module.norm:
        module.norm(torch.ones(16, 64).half(), torch.ones(64).half(), 1e-5)
    StatusFile().write()
    calls = json.loads(record.read_text())["calls"]
    # the first module may still be alive and write its calls again: the order is not certain
    shapes = sorted(call["arguments"][0]["shape"] for call in calls)
    assert shapes == [[4, 64], [8, 64], [16, 64]]


def test_a_record_of_other_shapes_is_refused(tmp_path: Path) -> None:
    (record,) = _recorded(tmp_path).glob("*.json")
    document = json.loads(record.read_text())
    for call in document["calls"]:
        call["arguments"][1]["shape"] = [63]
    record.write_text(json.dumps(document))
    with pytest.raises(ProblemError, match="no recorded call has the shapes of problem 'rmsnorm'"):
        problem_of(record)


@pytest.mark.slow
@pytest.mark.usefixtures("judge_of_plain_calls")
def test_recertify_judges_the_bare_kernel(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Smaller inputs and edits of the kernel that explain a verdict would take most of the test.
    monkeypatch.setattr(trial_job, "TrialPlan", partial(TrialPlan, smallest=False, causes=False))
    _recorded(tmp_path, fault="out[-1] *= 1.05")
    assert main(["guard", "recertify", "--profile", "quick", "--device", "cpu"]) == 1
    text = capfd.readouterr().out
    assert "rmsnorm as seen in production" in text
    assert "REJECTED" in text


def test_what_cannot_be_judged_again_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["guard", "recertify"]) == 2
    assert "no guard has recorded calls" in capsys.readouterr().err
    guarded = cuassay.guard(lambda x: x * 2, trusted=lambda x: x + x, name="plain", **QUIET)
    with guarded:
        guarded(torch.ones(3))
    StatusFile().write()
    assert main(["guard", "recertify"]) == 3
    assert "plain: its guard was given no problem" in capsys.readouterr().out
    assert main(["guard", "recertify", "--kernel", "other"]) == 2

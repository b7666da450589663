"""`cuassay check --tactics`: a wrong tactic is named, right ones are allowed, and where."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cuassay.cli.main import main
from cuassay.engine import run
from cuassay.model.events import EngineStopped, Event
from cuassay.model.jobs import TacticsJob, TrialJob
from cuassay.model.verdict import Decision, TriedSizes, Verdict
from tests.support import samples

_PROBLEM = '''"""Rows divided by their largest magnitude."""

from typing import Annotated

import torch
from cuassay import problem, tensor


@problem(
    axes={"rows": (1, 64), "columns": (1, 256)},
    workloads=[{"rows": 8, "columns": 64}, {"rows": 16, "columns": 48}],
)
def divided(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    return x / x.abs().amax(-1, keepdim=True).clamp_min(1e-6)
'''
# The base class has FlashInfer's names, order and defaults; the wrong tactic is valid at even
# widths alone, where it forgets the second half of a row.
_RUNNER = '''"""Rows divided by their largest magnitude, with four tactics."""

import torch


class Divide:
    def get_valid_tactics(self, inputs, profile):
        assert profile.get_opt_shapes()[0] == list(inputs[0].shape)
        return [0, 1, 2] if inputs[0].shape[-1] % 2 == 0 else [0]

    def __call__(self, inputs, **kwargs):
        return self.forward(inputs, **kwargs)

    def forward(self, inputs, tactic=-1, do_preparation=False, **kwargs):
        (x,) = inputs
        width = x.shape[-1]
        if tactic == 1:
            halves = x.abs().reshape(x.shape[0], 2, width // 2)
            largest = halves.amax(-1).amax(-1, keepdim=True)
        elif tactic == 2:
            largest = x[:, : width // 2].abs().amax(-1, keepdim=True)
        else:
            largest = x.abs().amax(-1, keepdim=True)
        return x / largest.clamp_min(1e-6)


runner = Divide()
'''


@pytest.mark.slow
@pytest.mark.usefixtures("judge_of_plain_calls")
def test_the_wrong_tactic_of_a_runner_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    (tmp_path / "problem.py").write_text(_PROBLEM)
    (tmp_path / "kernel.py").write_text(_RUNNER)
    file = tmp_path / "allowed.json"
    kernel = f"{tmp_path}/kernel.py::runner"
    call = ["check", kernel, "--problem", f"{tmp_path}/problem.py", "--profile", "quick"]
    assert main([*call, "--device", "cpu", "--tactics", str(file)]) == 1
    out = capsys.readouterr().out
    assert f"3 of 4 tactics may be used: {file}" in out
    document = json.loads(file.read_text())
    assert (document["schema"], document["kind"]) == ("cuassay/tactics/1", "FlashInfer runner")
    verdicts = {entry["tactic"]: entry["verdict"] for entry in document["tactics"]}
    assert verdicts == {"0": "ACCEPTED", "1": "ACCEPTED", "2": "REJECTED", "-1": "ACCEPTED"}
    assert set(document["allowed"]) == {"0", "1", "-1"}
    shapes = {entry["tactic"]: entry["shapes"] for entry in document["tactics"]}
    widths = {tactic: {one["columns"] for one in found} for tactic, found in shapes.items()}
    assert widths["1"]
    assert all(width % 2 == 0 for width in widths["1"])  # only where it may be chosen
    assert any(width % 2 for width in widths["0"])
    digests = {entry["digest"] for entry in document["tactics"]}
    assert len(digests) == 4  # each is a candidate of its own, for certificates


# The third configuration's programs cover two blocks each, which the grid of the wrong kernel
# forgets once there are more than a few elements.
_TUNED = """import torch
import triton
import triton.language as tl

_CONFIGS = [
    triton.Config({"BLOCK": 256, "SPLIT": 1}, num_warps=4),
    triton.Config({"BLOCK": 64, "SPLIT": 2}, num_warps=2),
]


@triton.autotune(configs=_CONFIGS, key=["count"])
@triton.jit
def _kernel(gate, up, y, count, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    for part in range(SPLIT):
        offsets = (tl.program_id(0).to(tl.int64) * SPLIT + part) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < count
        g = tl.load(gate + offsets, mask=inside, other=0.0)
        u = tl.load(up + offsets, mask=inside, other=0.0)
        tl.store(y + offsets, g / (1.0 + tl.exp(-g)) * u, mask=inside)


def run(gate, up):
    y = torch.empty_like(gate)
    count = gate.numel()

    def grid(meta):
        programs = triton.cdiv(count, meta["BLOCK"] * meta["SPLIT"])
        return (programs - (meta["SPLIT"] == 2 and count > 500),)

    _kernel[grid](gate, up, y, count)
    return y
"""


@pytest.mark.thorough
def test_the_wrong_configuration_of_an_autotuner_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    (tmp_path / "kernel.py").write_text(_TUNED)
    file = tmp_path / "allowed.json"
    call = ["check", f"{tmp_path}/kernel.py", "--problem", "swiglu@float32", "--profile", "quick"]
    assert main([*call, "--device", "cpu", "--tactics", str(file)]) == 1
    document = json.loads(file.read_text())
    assert document["kind"] == "autotuner"
    assert [entry["verdict"] for entry in document["tactics"]] == ["ACCEPTED", "REJECTED"]
    assert "BLOCK: 256" in document["allowed"][0]


def _installed(
    monkeypatch: pytest.MonkeyPatch,
    listed: Mapping[str, Any],
    trial: Callable[[TrialJob], Iterator[Event]],
) -> list[TacticsJob]:
    asked: list[TacticsJob] = []

    def tactics(job: TacticsJob, progress: Callable[[str], None]) -> Mapping[str, Any]:
        asked.append(job)
        return listed

    monkeypatch.setattr(run, "document", tactics)
    monkeypatch.setattr(run, "check", trial)
    return asked


def _verdict(verdict: Verdict, *sizes: int) -> Verdict:
    tried = tuple(TriedSizes(sizes={"rows": size}) for size in sizes)
    return dataclasses.replace(verdict, tried_sizes=tried)


_STATIC = {
    "kind": "tactics",
    "static": True,
    "calls": [{"sizes": {"rows": 1}, "names": ["a", "b"]}],
}


@pytest.mark.parametrize(
    ("second", "exit_code", "allowed"),
    [
        (samples.accepted(), 0, ["a", "b"]),
        (samples.rejected(), 1, ["a"]),
        (samples.inconclusive(), 3, ["a"]),
    ],
)
def test_the_exit_code_is_the_worst_one(
    second: Verdict,
    exit_code: int,
    allowed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    jobs: list[TrialJob] = []

    def trial(job: TrialJob) -> Iterator[Event]:
        jobs.append(job)
        first = job.candidate.endswith("@a")
        yield from samples.events(_verdict(samples.accepted() if first else second, 1, 8))

    asked = _installed(monkeypatch, _STATIC, trial)
    (tmp_path / "kernel.py").write_text("def run(x): return x\n")
    file = tmp_path / "allowed.json"
    call = ["check", f"{tmp_path}/kernel.py", "--problem", "rmsnorm", "--tactics", str(file)]
    assert main([*call, "--json"]) == exit_code
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(file.read_text())
    assert document["allowed"] == allowed
    assert document["tactics"][0]["shapes"] == [{"rows": 1}, {"rows": 8}]
    assert [job.candidate.rpartition("::")[2] for job in jobs] == ["@a", "@b"]
    assert jobs[0].seed == jobs[1].seed is not None
    assert all(job.isolated for job in jobs)
    assert len(asked) == 1  # the tactics are the same for every call


def test_a_tactic_that_no_tried_size_allows_is_not_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = _STATIC | {"static": False, "calls": [{"sizes": {"rows": 4}, "names": ["a"]}]}
    asked = _installed(
        monkeypatch, listed, lambda job: iter(samples.events(_verdict(samples.accepted(), 1, 8)))
    )
    (tmp_path / "kernel.py").write_text("def run(x): return x\n")
    file = tmp_path / "allowed.json"
    call = ["check", f"{tmp_path}/kernel.py", "--problem", "rmsnorm", "--tactics", str(file)]
    assert main(call) == 3
    document = json.loads(file.read_text())
    assert document["allowed"] == []
    assert "valid at none of the sizes tried" in document["tactics"][0]["reason"]
    assert asked[1].sizes == ({"rows": 1}, {"rows": 8})
    assert "0 of 1 tactics may be used" in capsys.readouterr().out


def test_a_trial_that_ends_early_is_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = EngineStopped(exit_code=3, message="the judge died")
    _installed(monkeypatch, _STATIC, lambda job: iter([stopped]))
    (tmp_path / "kernel.py").write_text("def run(x): return x\n")
    file = tmp_path / "allowed.json"
    call = ["check", f"{tmp_path}/kernel.py", "--problem", "rmsnorm", "--tactics", str(file)]
    assert main(call) == 3
    entry = json.loads(file.read_text())["tactics"][0]
    assert (entry["verdict"], entry["reason"]) == (Decision.INCONCLUSIVE.value, "the judge died")


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        (["--watch"], "leave --tactics out"),
        (["--format", "junit=report.xml"], "leave --format out"),
    ],
)
def test_options_that_do_not_go_together(
    extra: list[str],
    part: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text("def run(x): return x\n")
    call = ["check", "kernel.py", "--problem", "rmsnorm", "--tactics", "allowed.json", *extra]
    assert main(call) == 2
    assert part in capsys.readouterr().err
    assert not (tmp_path / "allowed.json").exists()

"""Foreign problems of a few lines, loaded as a user's would be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cuassay.checks.base import Check
from cuassay.checks.judgement import Judgement
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.decide.examine import judge_scenario
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner
from tests.support import trees

Shapes = Mapping[str, tuple[Sequence[str], str]]

ROTARY = """import torch

def get_inputs(axes_and_scalars, device):
    b, s, d = (axes_and_scalars[n] for n in ("batch", "seq", "dim"))
    positions = torch.arange(s, device=device).unsqueeze(0).expand(b, s).contiguous()
    gate = torch.randn(b, s, d, device=device)
    return {
        "x": torch.randn(b, s, d, device=device),
        "position_ids": positions,
        "gate": gate,
        "gate_sigmoid": torch.sigmoid(gate),
        "scale": torch.full((d,), 2.0, device=device),
    }

def run(x, position_ids, gate, gate_sigmoid, scale):
    angle = position_ids[..., None].float() * 0.1
    return x * torch.cos(angle) * scale + gate * gate_sigmoid
"""
_INPUTS: Shapes = {
    "x": (("batch", "seq", "dim"), "float32"),
    "position_ids": (("batch", "seq"), "int64"),
    "gate": (("batch", "seq", "dim"), "float32"),
    "gate_sigmoid": (("batch", "seq", "dim"), "float32"),
    "scale": (("dim",), "float32"),
}


def rotary(folder: Path) -> Problem:
    """A rotation whose generator gives every row of position_ids the same values."""
    return foreign(
        folder,
        ROTARY,
        axes=("batch", "seq", "dim"),
        inputs=_INPUTS,
        output=("batch", "seq", "dim"),
        sizes=({"batch": 1, "seq": 16, "dim": 8}, {"batch": 4, "seq": 64, "dim": 8}),
        generator="get_inputs",
    )


def foreign(
    folder: Path,
    reference: str,
    *,
    axes: Sequence[str],
    inputs: Shapes,
    output: Sequence[str],
    sizes: Sequence[Mapping[str, int]],
    generator: str = "",
) -> Problem:
    """Write a SOL-ExecBench problem of float32 output `y` and load it."""
    changes: dict[str, object] = {"custom_inputs_entrypoint": generator} if generator else {}
    place = trees.sol(
        folder,
        "p",
        axes={name: {"type": "var"} for name in axes},
        inputs={n: {"shape": list(shape), "dtype": dtype} for n, (shape, dtype) in inputs.items()},
        outputs={"y": {"shape": list(output), "dtype": "float32"}},
        reference=reference,
        **changes,
    )
    kind = "custom" if generator else "random"
    lines = [
        {"uuid": f"w{i}", "axes": dict(bound), "inputs": {n: {"type": kind} for n in inputs}}
        for i, bound in enumerate(sizes)
    ]
    place.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return load_problem(str(folder))


def findings_of(check: Check, trial: JudgeTrial, source: str) -> list[Finding]:
    """Return what a check finds in a kernel's source, whose `run` is called in this process."""
    return [found for one in judgements_of(check, trial, source) for found in one.findings]


def judgements_of(check: Check, trial: JudgeTrial, source: str) -> list[Judgement]:
    """Return what a check says of each scenario."""
    kernel: dict[str, Any] = {}
    exec(compile(source, "kernel.py", "exec"), kernel)
    runner = LocalRunner(kernel["run"], trial.problem)
    return [
        judge_scenario(
            trial, check, scenario, runner.run(scenario, trial.inputs, trial.truths.answers)
        )
        for scenario in check.propose(trial)
    ]


def trial_of(problem: Problem) -> JudgeTrial:
    """Return a quick trial on the CPU."""
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=3
    )

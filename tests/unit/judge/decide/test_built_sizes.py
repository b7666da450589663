"""Sizes that a constructor is told: axes of the problem, as far as a kernel follows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.checks.base import Run
from cuassay.errors import CannotJudgeError
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.formats.kernelbench import pair
from cuassay.judge.decide.built_sizes import follow_built_sizes
from cuassay.judge.trial import open_trial
from cuassay.judge.truths import Truths
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.domain import SizeOf
from cuassay.model.problem import Problem, TensorSpec, VarAxis
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.oracle.truth.types import Truth
from cuassay.sandbox.local import LocalRunner
from tests.support import foreign, trees
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate

_LINEAR = "self.bn(self.linear(x))"
_TEXT = foreign.KERNELBENCH.replace(
    "def __init__(self, features, out):", "def __init__(self, features, out, half, groups):"
).replace("[features, out]", "[features, out, features // 2, groups]")
_TEXT = _TEXT.replace("out = 24\n", "out = 24\ngroups = 4\n").replace(
    "self.bn = nn.BatchNorm1d(out)", "self.bn = nn.GroupNorm(groups, out)"
)
_NEW = _TEXT.partition("batch_size")[0].replace("class Model", "class ModelNew")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


@pytest.fixture
def _every_state_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair, "_LARGE_BYTES", 0)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return load_problem(str(foreign.kernelbench(tmp_path)))


def test_constructor_arguments_of_a_module_are_axes(problem: Problem) -> None:
    assert problem.built == ("features", "out")
    assert [axis.name for axis in problem.axes] == ["batch_size", "features", "out"]
    shapes = {s.name: s.shape for s in problem.inputs if isinstance(s, TensorSpec)}
    assert shapes["x"] == ("batch_size", "features")
    assert shapes["state_linear_weight"] == ("out", "features")
    assert problem.outputs[0].shape == ("batch_size", "out")
    sized = [spec for spec in problem.inputs if isinstance(spec.domain, SizeOf)]
    assert [(spec.name, spec.default) for spec in sized if not isinstance(spec, TensorSpec)] == [
        ("built_features", 32),
        ("built_out", 24),
    ]


def test_arguments_with_divisors_are_axes_and_computed_ones_none(tmp_path: Path) -> None:
    """Groups of channels allow multiples alone; half of the features hangs on them."""
    problem = load_problem(str(trees.write(tmp_path / "4_Grouped.py", _TEXT)))
    assert problem.built == ("out",)
    held = problem.as_built()
    assert held.built == ()
    assert VarAxis(name="out", sizes=(24,), description="the module is built with it") in held.axes


def test_the_reference_is_built_for_the_sizes_of_a_call(problem: Problem) -> None:
    loaded = load_reference(problem)
    assert loaded.generator is not None
    sizes = resolve(problem.axes, {"batch_size": 3, "features": 5, "out": 7})
    made = loaded.generator(sizes, torch.device("cpu"))
    weight = made["state_linear_weight"]
    assert isinstance(weight, torch.Tensor)
    assert weight.shape == (7, 5)
    result = loaded.call(*made.values(), 5, 7)
    assert isinstance(result, torch.Tensor)
    assert result.shape == (3, 7)
    hollow = [v.to("meta") for v in made.values() if isinstance(v, torch.Tensor)]
    assert loaded.call(*hollow, 5, 7).is_meta  # type: ignore[attr-defined]
    again = loaded.call(*made.values(), 5, 7)
    assert torch.equal(again, result)  # type: ignore[arg-type]


_KERNELS = {
    "right for every size": (foreign.MODEL_NEW, True, ""),
    "written for its own size": (
        foreign.MODEL_NEW.replace(_LINEAR, "self.bn(self.linear(x.reshape(-1, 32)))"),
        True,
        "built: judged with features=32 alone",
    ),
    "wrong beside its own size": (
        foreign.MODEL_NEW.replace(
            "        return",
            "        if x.shape[1] == 33:\n            x = x.flip(1)\n        return",
        ),
        False,
        "",
    ),
    "wrong as the problem builds it": (
        foreign.MODEL_NEW.replace(
            "        return",
            "        if x.shape[1] == 32:\n            x = x.flip(1)\n        return",
        ),
        False,
        "",
    ),
    "wrong at every size": (foreign.MODEL_NEW.replace(" + self.bias", ""), False, ""),
}


@pytest.mark.parametrize("name", _KERNELS)
def test_kernels_are_judged_at_the_sizes_that_they_follow(
    tmp_path: Path, gate: Gate, problem: Problem, name: str
) -> None:
    text, accepted, condition = _KERNELS[name]
    file = trees.write(tmp_path / f"{name.replace(' ', '_')}.py", text)
    judged = gate.judge(problem, file, seed=11, only=("NUM001", "SHP001", "API003"))
    assert judged.accepted == accepted, str(judged)
    said = [one for one in judged.verdict.conditions if one.startswith("built:")]
    assert [one.startswith(condition) for one in said] == ([True] if condition else [])
    tried = {entry.axis: entry.values for entry in judged.verdict.coverage}
    if condition:
        assert tried["features"] == (32,)
        assert len(tried["out"]) > 2
    else:
        assert len(tried["features"]) > 2
        assert 32 in tried["features"]


_LITERALS = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3)

    def forward(self, x):
        return self.conv(x).mean((2, 3))


batch_size = 2


def get_inputs():  # é
    return [torch.rand(batch_size, 3, 40, 48)]


def get_init_inputs():
    return [8]
"""


@pytest.mark.usefixtures("_every_state_is_large")
def test_literal_sizes_of_a_large_call_are_axes_where_the_model_takes_others(
    tmp_path: Path,
) -> None:
    problem = load_problem(str(trees.write(tmp_path / "6_Literals.py", _LITERALS)))
    assert [axis.name for axis in problem.var_axes()] == ["batch_size", "size1", "size2"]
    (x,) = [spec for spec in problem.inputs if spec.name == "x"]
    assert isinstance(x, TensorSpec)
    assert x.shape == ("batch_size", "3", "size1", "size2")
    assert dict(problem.workloads[0].axes) == {"batch_size": 2, "size1": 40, "size2": 48}
    loaded = load_reference(problem)
    assert loaded.generator is not None
    sizes = resolve(problem.axes, {"batch_size": 4, "size1": 9, "size2": 11})
    made = loaded.generator(sizes, torch.device("cpu"))
    assert made["x"].shape == (4, 3, 9, 11)  # type: ignore[attr-defined]
    assert loaded.call(*made.values()).shape == (4, 8)  # type: ignore[attr-defined]


def test_literal_sizes_of_a_small_call_stay(tmp_path: Path) -> None:
    problem = load_problem(str(trees.write(tmp_path / "6_Literals.py", _LITERALS)))
    assert [axis.name for axis in problem.var_axes()] == ["batch_size"]


def test_a_reference_that_draws_tells_nothing_of_sizes(tmp_path: Path) -> None:
    text = foreign.KERNELBENCH.replace("return self.bn", "return nn.functional.dropout(self.bn")
    text = text.replace("self.linear(x)) +", "self.linear(x)), 0.5) +")
    problem = load_problem(str(trees.write(tmp_path / "7_Drops.py", text)))
    assert problem.built == ("features", "out")
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=3
    )
    follow_built_sizes(trial, lambda scenario: pytest.fail(f"{scenario.label} was run"))
    assert trial.problem.built == ("features", "out")
    assert trial.planned.domain.built_condition == ""


_SCAN = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, steps, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        state, found = torch.zeros_like(x[0]), []
        for step in x:
            state = state * 0.5 + step * self.scale
            found.append(state)
        return torch.stack(found)


steps = 8192
width = 32


def get_inputs():
    return [torch.rand(steps, width)]


def get_init_inputs():
    return [steps, width]
"""


@pytest.mark.parametrize("everywhere", [False, True])
def test_own_sizes_of_which_truth_takes_long_are_tried_with_the_long_axis_small(
    tmp_path: Path, everywhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    full: list[Case] = []
    usual = Truths.truth

    def truth(truths: Truths, case: Case, *rest: Any) -> Truth:
        full.append(case)
        return usual(truths, case, *rest)

    monkeypatch.setattr(Truths, "truth", truth)
    problem = load_problem(str(trees.write(tmp_path / "8_Scan.py", _SCAN)))
    assert problem.built == ("steps", "width")
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=3
    )
    tried: dict[str, int] = {}

    def kernel(x: torch.Tensor, *others: Any) -> Any:
        right: Any = trial.reference.call(x, *others)
        return right.flip(0) if everywhere or x.shape[1] != 32 else right

    def run(scenario: Scenario) -> Run:
        tried[scenario.label] = scenario.cases[0].axes["steps"]
        runner = LocalRunner(kernel, trial.problem)
        return runner.run(scenario, trial.inputs, trial.truths.answers)

    follow_built_sizes(trial, run)
    assert "built as the problem does but for steps" in tried
    assert max(tried.values()) < 8192
    held = [axis.sizes for axis in trial.problem.var_axes() if axis.name == "width"]
    assert held == [() if everywhere else (32,)]
    assert not full  # rough truth tells that rows in another order are no rounding


_TILED = _SCAN.replace("steps = 8192", "steps = 512").replace("width = 32", "width = 4096")


def test_where_own_sizes_have_no_room_one_tile_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = load_problem(str(trees.write(tmp_path / "9_Tiled.py", _TILED)))
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=3
    )
    monkeypatch.setattr(
        type(trial.memory.room),
        "is_affordable",
        lambda self, problem, sizes, **_: sizes["width"] < 4096,
    )
    asked: dict[str, list[int]] = {}

    def kernel(x: torch.Tensor, *others: Any) -> Any:
        if x.shape[1] % 64:
            raise ValueError("tiles of 64")
        return trial.reference.call(x, *others)

    def run(scenario: Scenario) -> Run:
        width = scenario.cases[0].axes["width"]
        asked.setdefault(scenario.label, []).append(width)
        if width == 4096:
            raise CannotJudgeError("no room")
        runner = LocalRunner(kernel, trial.problem)
        return runner.run(scenario, trial.inputs, trial.truths.answers)

    follow_built_sizes(trial, run)
    assert [asked[f"built with tiles of {tile}"] for tile in (16, 64)] == [[16], [64]]
    assert "built with tiles of 128" not in asked
    held = {axis.name: axis.sizes for axis in trial.problem.var_axes()}
    assert held == {"steps": (), "width": (64, 4096)}
    assert "or with one tile" in trial.planned.domain.built_condition


_POOLS_TWICE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        x = nn.functional.max_pool1d(x, 2)
        return nn.functional.max_pool1d(x, 2)


def get_inputs():
    rows = 3
    return [torch.rand(rows, length)]


length = 40


def get_init_inputs():
    return []
"""


def test_a_model_that_refuses_the_smallest_sizes_is_read(tmp_path: Path) -> None:
    made = load_problem(str(trees.write(tmp_path / "1_Pool.py", _POOLS_TWICE)))
    assert "length" in {axis.name for axis in made.axes}


def test_other_initial_values_show_where_the_constructor_is_told_sizes(
    tmp_path: Path, gate: Gate, problem: Problem
) -> None:
    drawn = "self.linear = nn.Linear(features, out)"
    other = foreign.MODEL_NEW.replace(drawn, f"{drawn}; nn.init.normal_(self.linear.weight)")
    assert other != foreign.MODEL_NEW
    judged = gate.judge(
        problem, trees.write(tmp_path / "other.py", other), seed=11, only=("API005",)
    )
    assert judged.codes == ("API005",), str(judged)
    same = gate.judge(
        problem, trees.write(tmp_path / "same.py", foreign.MODEL_NEW), seed=11, only=("API005",)
    )
    assert same.accepted, str(same)

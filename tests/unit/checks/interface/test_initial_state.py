"""API005: modules that start with other values, or are wrong once a state is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.formats import load_problem
from cuassay.model.problem import Problem, StateSource
from cuassay.sandbox.host.nursery import Nursery
from tests.support import foreign, trees
from tests.support.fake_trial import row_sum
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate

_CHECKS = ("API005", "API004", "NUM001", "META001")
_BIAS = "self.bias = nn.Parameter(torch.randn(out))"
_HALF = "; self.linear.weight.data.mul_(0.5)"
_TWICE = "self.bn(2 * (self.linear(x) - self.linear.bias) + self.linear.bias)"
_RUNNING = """nn.functional.batch_norm(self.linear(x), self.bn.running_mean,
            self.bn.running_var, self.bn.weight, self.bn.bias, eps=self.bn.eps)"""
_FOLD = """
        self.eval()
        with torch.no_grad():
            scale = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()
            self.folded = self.linear.weight * scale[:, None]
            self.shift = (self.linear.bias - self.bn.running_mean) * scale + self.bn.bias"""


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return load_problem(str(foreign.kernelbench(tmp_path_factory.mktemp("problem"))))


def _changed(*changes: tuple[str, str]) -> str:
    text = foreign.MODEL_NEW
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


_KERNELS = {
    "as the reference": (foreign.MODEL_NEW, "", ()),
    "weights packed when built": (foreign.PACKED, "", ("loaded-state",)),
    "a constant folded when built": (
        _changed((_BIAS, _BIAS + _HALF), ("self.bn(self.linear(x))", _TWICE)),
        "",
        ("loaded-state",),
    ),
    "other draws of one distribution": (
        _changed(("self.linear = ", "torch.randn(3); self.linear = ")),
        "",
        ("initial-values",),
    ),
    "another distribution": (
        _changed((_BIAS, "nn.init.normal_(self.linear.weight); " + _BIAS)),
        "API005",
        (),
    ),
    "a constant that differs": (
        _changed((_BIAS, "nn.init.constant_(self.bn.weight, 2.0); " + _BIAS)),
        "API005",
        (),
    ),
    "a parameter that is a constant is not read": (
        _changed(("self.bn(self.linear(x))", "nn.functional.batch_norm("
                  "self.linear(x), None, None, training=True)")),
        "API004",
        ("training-mode",),
    ),
    "for inference alone": (
        _changed((_BIAS, _BIAS + "; self.eval()"), ("self.bn(self.linear(x))", _RUNNING)),
        "",
        ("evaluation-mode",),
    ),
    "for inference alone and folded when built": (
        _changed((_BIAS, _BIAS + _FOLD),
                 ("self.bn(self.linear(x))", "nn.functional.linear(x, self.folded, self.shift)")),
        "",
        ("evaluation-mode",),
    ),
    "for inference alone and wrong there": (
        _changed((_BIAS, _BIAS + "; self.eval()"),
                 ("self.bn(self.linear(x))", _RUNNING.replace("self.bn.eps", "0.01"))),
        "NUM001",
        (),
    ),
    "statistics of inference in training": (
        _changed(("self.bn(self.linear(x))", _RUNNING)),
        "NUM001",
        (),
    ),
    "statistics of training in inference": (
        _changed(("self.bn(self.linear(x))", _RUNNING.replace("self.bn.running_mean", "None")
                  .replace("self.bn.running_var", "None").replace("eps=", "training=True, eps="))),
        "",
        ("training-mode",),
    ),
    "wrong in inference alone": (
        _changed(("        return", "        if not self.training:\n            x = x.flip(1)\n"
                  "        return")),
        "",
        ("training-mode",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _KERNELS)
def test_a_module_starts_as_the_reference_and_takes_a_state(
    tmp_path: Path, gate: Gate, problem: Problem, name: str
) -> None:
    text, wanted, conditions = _KERNELS[name]
    file = tmp_path / f"{name.replace(chr(32), chr(95))}.py"  # one process imports all of them
    only = dict.fromkeys((*_CHECKS, *([wanted] if wanted else [])))
    judged = gate.judge(problem, trees.write(file, text), seed=11, only=tuple(only))
    assert judged.accepted == (not wanted), str(judged)
    assert not wanted or wanted in judged.codes
    found = {text.split(":")[0] for text in judged.verdict.conditions}
    assert found >= set(conditions)
    assert ("training-mode" in found) == ("training-mode" in conditions)


def test_what_is_packed_at_the_first_call_is_no_state_of_the_constructor(
    tmp_path: Path, problem: Problem, nursery: Nursery
) -> None:
    """In a process of its own, where another state comes first; META001 then loads two."""
    kernel = trees.write(
        tmp_path / "packed.py",
        _changed(("return self.bn(self.linear(x))", "self.w = getattr(self, 'w', "
                  "self.linear.weight.detach().clone())\n        return self.bn("
                  "nn.functional.linear(x, self.w, self.linear.bias))")),
    )  # fmt: skip
    with Gate("cpu", nursery=nursery) as isolated:
        judged = isolated.judge(problem, kernel, seed=11, only=("API005", "META001"))
    assert judged.codes == ("META001",)
    assert not judged.verdict.conditions


def test_a_right_module_is_called_once_in_the_process_that_is_there(
    tmp_path: Path, problem: Problem, nursery: Nursery
) -> None:
    with Gate("cpu", nursery=nursery) as isolated:
        file = trees.write(tmp_path / "right.py", _changed())
        judged = isolated.judge(problem, file, seed=11, only=("API005",))
    assert judged.accepted
    assert judged.verdict.workers == 1
    assert [one.what for one in judged.verdict.timeline].count("initial state") == 1


def test_a_state_of_the_constructor_is_told_at_small_sizes(
    tmp_path: Path, gate: Gate, problem: Problem
) -> None:
    """A kernel that folds a constant when it is built, and is right up to 32 outputs alone."""
    few = "y = " + _TWICE + "\n        return torch.cat((y[:, :32], 0 * y[:, 32:]), 1)"
    text = _changed((_BIAS, _BIAS + _HALF), ("return self.bn(self.linear(x))", few))
    judged = gate.judge(problem, trees.write(tmp_path / "few.py", text), seed=11, only=("API005",))
    assert "loaded-state" in {text.split(":")[0] for text in judged.verdict.conditions}


def test_problems_without_a_state_ask_for_none(problem: Problem) -> None:
    assert row_sum().problem.usual_state == {}
    assert problem.usual_state == {"state_source": StateSource.GIVEN.value}
    kept = problem.with_state_from(StateSource.INITIAL)
    assert kept.usual_state == {"state_source": StateSource.INITIAL.value}
    assert all(kept.input(name).domain_source == "declared" for name in problem.state)


# For inference alone: the weight lies in a buffer that a checkpoint fills.
_INFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.register_buffer("weight", torch.PLACEHOLDER(out, features))
        self.register_buffer("scale", torch.ones(out))

    def forward(self, x):
        return nn.functional.linear(x, self.weight) * self.scale


batch_size = 16
features = 24
out = 8


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, out]
"""
_NEW = _INFERENCE.partition("batch_size")[0].replace("class Model", "class ModelNew")


_NAN = ("torch.full(out, features)", "torch.full((out, features), torch.nan)")


@pytest.mark.parametrize(
    ("theirs", "ours", "change", "accepted"),
    [
        ("empty", "empty", ("", ""), True),
        ("empty", "zeros", ("", ""), True),
        ("zeros", "empty", ("", ""), True),
        ("zeros", "full", _NAN, True),
        ("empty", "empty", ("torch.ones(out)", "torch.full((out,), 2.0)"), False),
        ("empty", "zeros", ("* self.scale", "* 1.0"), False),
        ("zeros", "zeros", ("* self.scale", "* 1.0"), False),
    ],
)
def test_a_buffer_that_a_state_fills_has_no_first_value(
    tmp_path: Path, gate: Gate, theirs: str, ours: str, change: tuple[str, str], accepted: bool
) -> None:
    place = tmp_path / "level1" / f"5_{theirs}.py"
    problem = load_problem(str(trees.write(place, _INFERENCE.replace("PLACEHOLDER", theirs))))
    text = _NEW.replace("PLACEHOLDER", ours).replace(*change)
    number = hashlib.sha256(text.encode()).hexdigest()[:8]  # one process imports all of them
    file = trees.write(tmp_path / f"new_{theirs}_{number}.py", text)
    judged = gate.judge(problem, file, seed=11, only=_CHECKS)
    assert judged.accepted is accepted, str(judged)


def test_zeros_that_the_reference_can_start_with_are_values(tmp_path: Path, gate: Gate) -> None:
    text = _INFERENCE.replace("PLACEHOLDER", "zeros").replace(
        "self.scale\n", "self.scale + x[:, :1]\n"
    )
    problem = load_problem(str(trees.write(tmp_path / "level1" / "6_shift.py", text)))
    new = text.partition("batch_size")[0].replace("class Model", "class ModelNew")
    other = new.replace("torch.zeros(out, features)", "torch.randn(out, features)")
    for number, (kernel, accepted) in enumerate(((new, True), (other, False))):
        file = trees.write(tmp_path / f"shift_{number}.py", kernel)
        assert gate.judge(problem, file, seed=11, only=_CHECKS).accepted is accepted


# Two norms of one width, which begin with the same constants.
_NORMS = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        step = lambda: nn.Sequential(nn.Linear(width, width, bias=False), nn.BatchNorm1d(width))
        self.steps = nn.Sequential(step(), nn.ReLU(), step())
        self.eval()

    def forward(self, x):
        return self.steps(x)


batch_size = 8
width = 16


def get_inputs():
    return [torch.randn(batch_size, width)]


def get_init_inputs():
    return [width]
"""
_RENAMED = """import torch
from torch import nn


class Step(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.product = nn.Linear(width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.folded = None

    def fold(self):
        scale = self.norm.weight / (self.norm.running_var + self.norm.eps).sqrt()
        self.folded = nn.Linear(*self.product.weight.shape)
        self.folded.weight.data = self.product.weight * scale[:, None]
        self.folded.bias.data = self.norm.bias - self.norm.running_mean * scale

    def forward(self, x, norm):
        return norm(self.product(x)) if self.folded is None else self.folded(x)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([Step(width), Step(width)])
        self.eval()

    def forward(self, x):
        first, second = self.layers
        return second(first(x, first.norm).relu(), second.norm)
"""


@pytest.mark.parametrize(
    ("name", "change", "code", "condition"),
    [
        ("renamed", ("", ""), "", ""),
        ("folded", ("self.eval()", "[each.fold() for each in self.layers]; self.eval()"),
         "", "evaluation-mode"),
        ("first", ("relu(), second.norm", "relu(), first.norm"), "API004", ""),
    ],
)  # fmt: skip
def test_norms_of_other_names_are_given_their_own_state(
    tmp_path: Path, nursery: Nursery, name: str, change: tuple[str, str], code: str, condition: str
) -> None:
    problem = load_problem(str(trees.write(tmp_path / "level1" / "7_norms.py", _NORMS)))
    file = trees.write(tmp_path / f"{name}_norms.py", _RENAMED.replace(*change))
    with Gate("cpu", nursery=nursery) as isolated:
        judged = isolated.judge(problem, file, seed=11, only=_CHECKS)
    assert judged.codes == ((code,) if code else ()), str(judged)
    assert {text.partition(":")[0] for text in judged.verdict.conditions} >= {condition} - {""}

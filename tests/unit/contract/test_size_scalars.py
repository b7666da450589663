"""Scalars that repeat the size of an axis follow it; those that may be sizes are planned for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from cuassay.contract.memory import GIB, Room
from cuassay.errors import ProblemError
from cuassay.formats import load_problem
from cuassay.formats.domain_rules import domain_words
from cuassay.formats.execute import load_reference
from cuassay.inputs.budget import budget_for
from cuassay.inputs.plan import PURPOSES
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.domain import Choice, SizeOf
from cuassay.model.problem import Problem, ScalarSpec
from cuassay.model.verdict import Profile
from tests.support import trees
from tests.unit.contract.problems import trial_of

_MASK = """import torch

def run(batch_size, length, window):
    rows = torch.arange(length)
    mask = (rows[:, None] >= rows) & (rows[:, None] - rows < window)
    return mask.float().expand(batch_size, length, length).contiguous()
"""


def _masks(folder: Path, calls: tuple[Mapping[str, int], ...]) -> Problem:
    """A problem without a tensor input: a mask whose sizes are scalars, as in SOL-ExecBench."""
    scalars = ("batch_size", "length", "window")
    place = trees.sol(
        folder,
        "masks",
        axes={"batch": {"type": "var"}, "seq": {"type": "var"}},
        inputs={name: {"shape": None, "dtype": "int64"} for name in scalars},
        outputs={"y": {"shape": ["batch", "seq", "seq"], "dtype": "float32"}},
        reference=_MASK,
    )
    lines = [
        {
            "uuid": f"w{number}",
            "axes": {"batch": call["batch_size"], "seq": call["length"]},
            "inputs": {name: {"type": "scalar", "value": call[name]} for name in scalars},
        }
        for number, call in enumerate(calls)
    ]
    place.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return load_problem(str(folder))


_CALLS = (
    {"batch_size": 2, "length": 32, "window": 8},
    {"batch_size": 64, "length": 16, "window": 8},
    {"batch_size": 4, "length": 4096, "window": 64},
)


def _scalar(problem: Problem, name: str) -> ScalarSpec:
    found = problem.input(name)
    assert isinstance(found, ScalarSpec)
    return found


def test_a_scalar_that_has_the_size_of_one_axis_in_every_workload_is_that_size(
    tmp_path: Path,
) -> None:
    problem = _masks(tmp_path, _CALLS)
    assert _scalar(problem, "batch_size").domain == SizeOf(axis="batch")
    assert _scalar(problem, "length").domain == SizeOf(axis="seq")
    assert _scalar(problem, "window").domain == Choice(values=(8, 64))
    assert domain_words(SizeOf(axis="seq")) == "the size of seq"


@pytest.mark.parametrize(
    "calls",
    [
        ({"batch_size": 2, "length": 32, "window": 8},) * 2,  # one size: no relation shows
        (  # either axis may be meant
            {"batch_size": 8, "length": 8, "window": 8},
            {"batch_size": 16, "length": 16, "window": 8},
        ),
    ],
)
def test_sizes_that_show_no_relation_stay_as_listed(
    tmp_path: Path, calls: tuple[Mapping[str, int], ...]
) -> None:
    problem = _masks(tmp_path, calls)
    assert isinstance(_scalar(problem, "batch_size").domain, Choice)


def test_it_follows_its_axis_in_every_case(tmp_path: Path) -> None:
    trial = trial_of(_masks(tmp_path, _CALLS))
    seen = 0
    for purpose in PURPOSES:
        for case in trial.cases(purpose):
            values = trial.inputs(case)
            assert values["batch_size"] == case.axes["batch"], (purpose, case.label)
            assert values["length"] == case.axes["seq"], (purpose, case.label)
            seen += 1
    assert seen > 10


def test_an_integer_that_follows_no_axis_is_planned_for(tmp_path: Path) -> None:
    """No axis tells that `length` asks for 64 GiB: the reference is asked, on fake tensors."""
    same = {"batch_size": 8, "length": 8, "window": 8}
    problem = _masks(tmp_path, (same, {"batch_size": 16, "length": 16, "window": 8}))
    room = Room(
        load_reference(problem),
        device=CPU,
        limit_gib=8.0,
        work_limit=budget_for(Profile.QUICK, device=CPU).work,
    )
    scalars = {"batch_size": 4, "length": 1 << 16, "window": 8}
    huge = Case(label="huge", axes={"batch": 4, "seq": 8}, scalars=scalars)
    assert not room.holds(problem, huge)
    assert room.need(problem, huge).worker >= 64 * GIB
    usual = Case(label="usual", axes={"batch": 8, "seq": 8}, scalars=same)
    assert room.holds(problem, usual)
    assert torch.is_tensor(load_reference(problem).call(8, 8, 8))


def test_a_sidecar_states_it(tmp_path: Path) -> None:
    same = {"batch_size": 8, "length": 8, "window": 8}
    _masks(tmp_path, (same, {"batch_size": 16, "length": 16, "window": 8}))
    sidecar = tmp_path / "cuassay.toml"
    sidecar.write_text('domains.length = { kind = "size_of", axis = "seq" }\n')
    trial = trial_of(load_problem(str(tmp_path)))
    assert all(trial.inputs(c)["length"] == c.axes["seq"] for c in trial.cases("shapes"))
    sidecar.write_text('domains.window = { kind = "size_of", axis = "seq" }\n')
    with pytest.raises(ProblemError, match=r"'w1' has window = 8, where seq is 16"):
        load_problem(str(tmp_path))
    sidecar.write_text('domains.length = { kind = "size_of", axis = "sea" }\n')
    with pytest.raises(ProblemError, match="unknown axis 'sea'"):
        load_problem(str(tmp_path))

"""Functions of a test file as problems and candidates: what is cut out, and how axes are found."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.callables import candidate_place, problem_folder
from cuassay.formats.calls import prepare
from cuassay.formats.execute import load_reference
from cuassay.formats.slicing import standalone
from tests.support import functions, taken_names


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))


def _run(text: str, tmp_path: Path) -> Any:
    file = tmp_path / "cut.py"
    file.write_text(text)
    return runpy.run_path(str(file))["run"]


def test_a_function_is_cut_out_with_what_it_uses(tmp_path: Path) -> None:
    text = standalone(functions.reference, ["x", "y"])
    for gone in ("unused", "TABLE", "cuassay", "tests", "kernel", "closure"):
        assert gone not in text
    x, y = torch.randn(3, 5), torch.randn(5)
    assert torch.equal(_run(text, tmp_path)(x, y), functions.reference(x, y))


def test_its_helpers_may_have_names_of_ours(tmp_path: Path) -> None:
    x = torch.randn(3, 5)
    expected = taken_names.reference(x)
    assert torch.equal(_run(standalone(taken_names.reference, ["x"]), tmp_path)(x), expected)
    place, _ = prepare(taken_names.several_kernel, taken_names.several, {"x": x})
    made: Any = load_reference(load_problem(place)).call(x)
    assert torch.equal(made[0], expected)


def test_a_library_function_is_imported(tmp_path: Path) -> None:
    x = torch.randn(3, 5)
    for function in (torch.nn.functional.gelu, torch.exp, torch.special.erf):
        text = standalone(function, ["x"])
        assert "import" in text
        assert torch.equal(_run(text, tmp_path)(x), function(x))


def test_what_cannot_be_cut_out_is_said() -> None:
    for wrong in (functions.closure(), torch.nn.Linear(1, 1).forward):
        with pytest.raises(ProblemError, match="lambda, a method or a closure"):
            standalone(wrong, ["x"])
    with pytest.raises(CandidateError, match="top level of a file"):
        candidate_place(functions.closure())


def test_equal_sizes_share_an_axis_and_constants_show_over_examples() -> None:
    one = problem_folder(functions.reference, functions.example)
    found = json.loads((one / "definition.json").read_text())
    assert found["axes"] == {"d0": {"type": "var"}, "d1": {"type": "var"}}
    assert found["inputs"]["x"]["shape"] == ["d0", "d1"]
    assert found["inputs"]["y"]["shape"] == ["d1"]
    many = [{"x": torch.ones(n, 8), "y": torch.ones(8)} for n in (4, 1, 6)]
    two = problem_folder(functions.reference, many)
    found = json.loads((two / "definition.json").read_text())
    assert found["axes"] == {"d0": {"type": "var"}, "d1": {"type": "const", "value": 8}}
    problem = load_problem(str(two))
    assert [work.axes for work in problem.workloads] == [{"d0": 4}, {"d0": 1}, {"d0": 6}]
    assert problem_folder(functions.reference, many) == two


def test_sizes_that_only_the_output_has_fix_all() -> None:
    folder = problem_folder(functions.doubled, [torch.ones(4, 8)])
    found = json.loads((folder / "definition.json").read_text())
    assert found["axes"]["d1"] == {"type": "const", "value": 8}
    assert found["outputs"]["output"]["shape"] == ["d0", "16"]
    with pytest.raises(ProblemError, match="axes can be expressions"):
        problem_folder(functions.doubled, [[torch.ones(4, n)] for n in (8, 9)])


@pytest.mark.parametrize(
    ("function", "inputs", "part"),
    [
        (functions.failing, [torch.ones(1)], "fails on the given inputs: RuntimeError: no 1"),
        (functions.doubled, [], "inputs is empty"),
        (functions.doubled, 3, "inputs is a int"),
        (functions.unused, [torch.ones(2), None], "is a NoneType"),
        (functions.doubled, [{"x": torch.ones(2)}, {"z": torch.ones(2)}], "different arguments"),
        (functions.doubled, [[torch.ones(2)], [torch.ones(2, 2)]], "one number of axes"),
        (functions.example, [], "inputs is empty"),
    ],
)
def test_inputs_that_cannot_be(function: Any, inputs: Any, part: str) -> None:
    with pytest.raises(ProblemError, match=part):
        problem_folder(function, inputs)


def test_a_kernel_of_a_package_ships_the_package(tmp_path: Path) -> None:
    place = candidate_place(functions.kernel)
    problem = load_problem(str(problem_folder(functions.reference, functions.example)))
    candidate = load_candidate(place, problem)
    assert candidate.entry_function == "run"
    assert "tests/support/functions.py" in {source.path for source in candidate.sources}
    alone = tmp_path / "alone.py"
    alone.write_text("def run(x, y):\n    return x\n")
    import importlib.util

    spec = importlib.util.spec_from_file_location("alone", alone)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["alone"] = module
    try:
        spec.loader.exec_module(module)
        assert candidate_place(module.run) == f"{alone}::run"
    finally:
        del sys.modules["alone"]

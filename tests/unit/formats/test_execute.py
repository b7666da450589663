"""A problem's reference and generator: loaded from its file, and refused in words."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from cuassay.errors import ProblemError, ReferenceError_
from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference, on_cpu
from cuassay.model.problem import Problem, Reference
from tests.support.fake_trial import row_sum

_REFERENCE = "class Ops:\n    @staticmethod\n    def run(x):\n        return x.sum(-1)\n"


def _problem(folder: Path, text: str, *, function: str = "run", generator: str | None = None,
             origin: str = "sol") -> Problem:  # fmt: skip
    path = folder / "reference.py"
    path.write_text(text)
    reference = Reference(path=path, function=function, generator=generator)
    return dataclasses.replace(row_sum().problem, reference=reference, origin=origin)


def test_a_function_is_found_inside_a_class(tmp_path: Path) -> None:
    loaded = load_reference(_problem(tmp_path, _REFERENCE, function="Ops.run"))
    assert loaded.call(torch.ones(2, 3)).tolist() == [3.0, 3.0]  # type: ignore[attr-defined]
    assert loaded.generator is None
    assert loaded.differentiable is loaded.call


def test_a_reference_for_gradients_may_be_another_one(tmp_path: Path) -> None:
    text = "def inner(x): ...\ndef run(x): ...\nrun.with_gradients = inner\n"
    loaded = load_reference(_problem(tmp_path, text))
    assert getattr(loaded.differentiable, "__name__", "") == "inner"


@pytest.mark.parametrize(
    ("text", "function", "error", "message"),
    [
        ("run = 3", "run", ProblemError, "defines no function 'run'"),
        ("def run(x): ...\ndel run", "run", ProblemError, "defines no function 'run'"),
        ("", "outer.<locals>.run", ReferenceError_, "move it to the top level"),
        ("raise ValueError('no')", "run", ReferenceError_, "ValueError"),
    ],
)
def test_what_cannot_be_loaded_is_said(
    tmp_path: Path, text: str, function: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_reference(_problem(tmp_path, text, function=function))


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    problem = _problem(tmp_path, _REFERENCE)
    problem.reference.path.unlink()
    with pytest.raises(ReferenceError_, match="which is gone"):
        load_reference(problem)


_GENERATOR = """
import torch
def run(x): ...
def make(sizes, device):
    if sizes["rows"] == 1:
        raise KeyError("rows")
    if sizes["rows"] == 2:
        return [torch.zeros(1)]
    if sizes["rows"] == 3:
        return {}
    return {"x": torch.zeros(sizes["rows"], sizes["cols"]), "beside": 1}
"""


def test_a_generator_is_held_to_the_inputs(tmp_path: Path) -> None:
    loaded = load_reference(_problem(tmp_path, _GENERATOR, generator="make"))
    assert loaded.generator is not None
    made = loaded.generator({"rows": 4, "cols": 2}, "cpu")
    assert list(made) == ["x"]
    for rows, message in ((1, "raised KeyError"), (2, "returned a list"), (3, "no value for x")):
        with pytest.raises(ReferenceError_, match=message):
            loaded.generator({"rows": rows, "cols": 2}, "cpu")


def test_a_native_generator_may_leave_inputs_to_be_drawn(tmp_path: Path) -> None:
    loaded = load_reference(_problem(tmp_path, _GENERATOR, generator="make", origin="native"))
    assert loaded.generator is not None
    assert loaded.generator({"rows": 3, "cols": 2}, "cpu") == {}


_ON_A_GPU = """
import torch
def inner(x):
    return (x * torch.arange(x.shape[0], device="cuda:0")).cuda()
def run(x):
    return inner(x) + torch.ones(x.shape[0], device=torch.device("cuda"))
run.with_gradients = inner
def make(sizes, device):
    return {"x": torch.ones(sizes["rows"], sizes["cols"], device="cuda")}
"""


def test_a_reference_that_names_a_gpu_runs_where_a_trial_has_none(tmp_path: Path) -> None:
    problem = _problem(tmp_path, _ON_A_GPU, generator="make")
    loaded = on_cpu(load_reference(problem), _ON_A_GPU)
    assert loaded.call(torch.ones(3)).tolist() == [1.0, 2.0, 3.0]  # type: ignore[attr-defined]
    gradients = loaded.differentiable(torch.ones(3))
    assert gradients.tolist() == [0.0, 1.0, 2.0]  # type: ignore[attr-defined]
    assert loaded.generator is not None
    made = loaded.generator({"rows": 2, "cols": 3}, "cpu")["x"]
    assert isinstance(made, torch.Tensor)
    assert made.device.type == "cpu"


def test_a_reference_on_a_gpu_may_be_its_own_for_gradients(tmp_path: Path) -> None:
    text = "import torch\ndef run(x):\n    return x.cuda() + 1\nrun.with_gradients = run\n"
    loaded = on_cpu(load_reference(_problem(tmp_path, text)), text)
    assert loaded.call(torch.ones(1)).tolist() == [2.0]  # type: ignore[attr-defined]
    assert loaded.differentiable is loaded.call


_MODULE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)
rows = 4
def get_inputs():
    return [torch.randn(rows, 3)]
def get_init_inputs():
    return []
"""


def test_what_cuassay_writes_around_a_module_names_no_gpu(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(_MODULE)
    problem = load_problem(str(file))
    loaded = load_reference(problem)
    assert loaded.differentiable is loaded.call
    assert on_cpu(loaded, problem.reference.source) is loaded
    source = problem.reference.source.replace("torch.tanh(x)", "torch.tanh(x.cuda())")
    assert on_cpu(loaded, source) is not loaded


def test_a_reference_that_names_no_gpu_stays_as_it_is(tmp_path: Path) -> None:
    loaded = load_reference(_problem(tmp_path, _REFERENCE, function="Ops.run"))
    assert on_cpu(loaded, _REFERENCE + "# faster than cuda\n") is loaded

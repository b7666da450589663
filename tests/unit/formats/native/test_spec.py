"""Every signature that people have can be declared with @problem, and its kernels are called so."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.describe import problem_document
from cuassay.formats.execute import load_reference
from cuassay.formats.native import declaration as native
from cuassay.formats.native.declaration import problem, tensor
from cuassay.judge.decide.control import reference_candidate
from cuassay.model import serial
from cuassay.model.problem import Problem, ScalarSpec
from tests.support.calls import kernels, problems
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate

_FILE = Path(problems.__file__)
_KERNELS = Path(kernels.__file__)
# problem: kernel, its flat inputs, the names of the outputs
_CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "keyword_only": ("keyword_only", ["x", "weight", "eps"], ["y"]),
    "configured": ("configured", ["x", "config_scale"], ["output"]),
    "tuned": ("configured", ["x", "config_eps", "config_scale"], ["output"]),
    "lists": ("lists", ["xs_0", "xs_1", "weights_0"], ["output_0", "output_1"]),
    "nested": ("nested", ["state_a", "state_more_b"], ["y", "stats_mean", "stats_sum"]),
    "into": ("into", ["x"], ["out"]),
    "in_place": ("in_place", ["x"], ["x_after"]),
    "linear": (
        "applied",
        ["x", "layer_gain", "layer_proj_weight", "layer_proj_bias"],
        ["output"],
    ),
}


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


def _problem(name: str) -> Problem:
    return load_problem(f"{_FILE}:{name}")


def _inputs(found: Problem) -> list[Any]:
    sizes = {**found.workloads[0].axes, "10": 10, "4": 4}
    generator = torch.Generator().manual_seed(0)
    made: list[Any] = []
    for spec in found.inputs:
        if isinstance(spec, ScalarSpec):
            made.append(1e-4)
            continue
        shape = [sizes[size] if size in sizes else int(size) for size in spec.shape]
        made.append(torch.rand(shape, generator=generator).to(getattr(torch, spec.dtype.value)))
    return made


def _copied(values: list[Any]) -> list[Any]:
    return [v.clone() if torch.is_tensor(v) else v for v in values]


def _several(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def _loaded(sources: Mapping[str, str], entry: str, function: str, folder: Path) -> Any:
    """Import a candidate's files as its process does."""
    for path, text in sources.items():
        (folder / path).write_text(text)
    before = dict(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        return runpy.run_path(str(folder / entry))[function]
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - set(before):
            del sys.modules[name]


@pytest.mark.parametrize("name", _CASES)
def test_a_kernel_is_called_as_the_problem_is_declared(name: str, tmp_path: Path) -> None:
    kernel, inputs, outputs = _CASES[name]
    found = _problem(name)
    assert [spec.name for spec in found.inputs] == inputs
    assert [spec.name for spec in found.outputs] == outputs
    values = _inputs(found)
    expected = load_reference(found).call(*_copied(values))
    candidate = load_candidate(f"{_KERNELS}::{kernel}", found)
    sources = {source.path: source.text for source in candidate.sources}
    run: Callable[..., Any] = _loaded(
        sources, candidate.entry_file, candidate.entry_function, tmp_path
    )
    got = run(*_copied(values))
    for ours, theirs in zip(_several(got), _several(expected), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", _CASES)
def test_another_process_finds_the_reference(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = serial.loads(Problem, serial.dumps(_problem(name)))
    values = _inputs(found)
    expected = load_reference(found).call(*_copied(values))
    monkeypatch.setattr(native, "_FUNCTIONS", {})
    again = load_reference(found).call(*_copied(values))
    control = reference_candidate(found)
    text = {control.entry_file: control.sources[0].text}
    as_candidate = _loaded(text, control.entry_file, control.entry_function, tmp_path)
    made = as_candidate(*_copied(values))
    for one in (again, made):
        for ours, theirs in zip(_several(one), _several(expected), strict=True):
            assert torch.equal(ours, theirs)


def test_an_autograd_function_is_a_kernel(gate: Gate, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import torch\n\nclass Double(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n        return x * 2\n\n    @staticmethod\n"
        "    def backward(ctx, grad):\n        return grad * 2\n\nrun = Double.apply\n"
    )
    judged = gate.judge(_problem("doubled"), kernel, seed=3, only=("NUM001", "GRAD001"))
    assert judged.accepted, str(judged)


@pytest.mark.parametrize("name", ["configured", "into"])
def test_right_and_wrong_kernels_are_told_apart(name: str, gate: Gate) -> None:
    found = _problem(name)
    right = gate.judge(found, Path(f"{_KERNELS}::{name}"), seed=3, only=("NUM001", "SHP001"))
    assert right.accepted, str(right)
    bad = {"configured": "unscaled", "into": "into_wrongly"}[name]
    wrong = gate.judge(found, Path(f"{_KERNELS}::{bad}"), seed=3, only=("NUM001", "SHP001"))
    assert "NUM001" in wrong.codes, str(wrong)


def test_what_is_held_is_said_and_the_signature_is_shown() -> None:
    notes: list[str] = []
    found = load_problem(f"{_FILE}:configured", notes=notes)
    (note,) = [note for note in notes if "as the problem has them" in note]
    assert "mode = 'mean'" in note
    document = problem_document(found, "float64", "")
    assert document["signature"] == ("x, config, mode='mean', residual=None, kind=Mode.MEAN")
    assert "def configured" in document["reference"]["text"]
    keywords = problem_document(_problem("keyword_only"), "float64", "")
    assert keywords["signature"] == "x, *, weight, eps"


def test_a_kernel_of_another_language_is_refused(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("__global__ void k(float* x) {}\n")
    with pytest.raises(CandidateError, match="arguments that only Python can make"):
        load_candidate(str(kernel), _problem("configured"))


_SIZED = Annotated[torch.Tensor, tensor("float32", "n")]


def _fills_another_size(
    x: _SIZED, out: Annotated[torch.Tensor, tensor("float32", "m", out=True)]
) -> None:
    """Fill memory whose size no input has."""


def _returns_nothing(x: _SIZED, mode: str = "a") -> None:
    """Return nothing."""


def _any_number(*xs: torch.Tensor) -> _SIZED:
    """Take any number."""
    return xs[0]


def _no_description(x: Annotated[torch.Tensor, "a tensor"]) -> _SIZED:
    """Annotate with what is no description."""
    return x


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_fills_another_size, "no input has the axis 'm' as a size"),
        (_returns_nothing, "no argument is written to"),
        (_any_number, "expected named parameters"),
        (_no_description, r"holds 0 tensor\(...\) or scalar"),
    ],
)
def test_mistakes_are_one_message(function: Callable[..., object], message: str) -> None:
    axes = {"n": (1, 8), "m": (1, 8)}
    with pytest.raises(ProblemError, match=message):
        problem(axes=axes, workloads=({"n": 4, "m": 4},))(function)


def test_an_argument_is_either_filled_or_changed() -> None:
    with pytest.raises(ProblemError, match="either out or updated"):
        tensor("float32", "n", out=True, updated=True)

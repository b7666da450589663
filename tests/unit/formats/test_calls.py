"""Every signature that people have becomes a problem and a candidate that agree."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import cuassay
from cuassay.errors import CandidateError, ProblemError
from cuassay.formats import beside, load_candidate, load_problem
from cuassay.formats.calls import prepare
from cuassay.formats.execute import load_reference
from cuassay.model.diagnosis import Cause
from tests.support.calls import kernels, references

_KERNELS = kernels.__name__
_X = torch.linspace(-2.0, 3.0, 60).reshape(6, 10)


def _modules() -> tuple[torch.nn.Module, torch.nn.Module]:
    torch.manual_seed(0)
    kernel, reference = kernels.Linear(10, 4), references.Linear(10, 4)
    reference.load_state_dict(kernel.state_dict())
    return kernel, reference


_KERNEL, _REFERENCE = _modules()
_CONFIG = kernels.Config(1e-6, torch.linspace(0.5, 2.0, 10))
_CONFIGURED = {
    "x": _X,
    "config": _CONFIG,
    "mode": "mean",
    "residual": None,
    "kind": kernels.Mode.MEAN,
}
# name: kernel, reference, inputs, names of the flat inputs, names of the outputs
_CASES: dict[str, tuple[Any, Any, dict[str, Any], list[str], list[str]]] = {
    "keyword-only arguments": (
        kernels.keyword_only,
        references.keyword_only,
        {"x": _X.bfloat16(), "weight": torch.ones(10).bfloat16(), "eps": 1e-6},
        ["x", "weight", "eps"],
        ["output"],
    ),
    "config, string, None, enum": (
        kernels.configured,
        references.configured,
        _CONFIGURED,
        ["x", "config_scale"],
        ["output"],
    ),
    "ragged lists": (
        kernels.lists,
        references.lists,
        {"xs": [_X[:3], _X[:5]], "weights": (torch.ones(10), 2.0)},
        ["xs_0", "xs_1", "weights_0"],
        ["output_0", "output_1"],
    ),
    "nested dicts in, a named tuple out": (
        kernels.nested,
        references.nested,
        {"state": {"a": _X, "more": {"b": _X + 1}}},
        ["state_a", "state_more_b"],
        ["y", "stats_mean", "stats_sum"],
    ),
    "out= in both": (
        kernels.into,
        references.into,
        {"x": _X, "out": torch.empty(6, 10)},
        ["x"],
        ["out"],
    ),
    "out= in the kernel alone": (
        kernels.into,
        references.double,
        {"x": _X, "out": torch.empty(6, 10)},
        ["x"],
        ["output"],
    ),
    "an input changed and returned": (
        kernels.in_place,
        references.in_place,
        {"x": _X},
        ["x"],
        ["output"],
    ),
    "an autograd function": (
        kernels.Double.apply,
        references.double,
        {"x": _X},
        ["x"],
        ["output"],
    ),
    "modules with parameters": (
        _KERNEL,
        _REFERENCE,
        {"x": _X},
        ["x", "gain", "proj_weight", "proj_bias"],
        ["output"],
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_the_files_compute_what_the_functions_do(name: str) -> None:
    kernel, reference, inputs, leaves, outputs = _CASES[name]
    place, where = prepare(kernel, reference, inputs)
    problem = load_problem(place)
    candidate = load_candidate(where, problem)
    assert [spec.name for spec in problem.inputs] == leaves
    assert [spec.name for spec in problem.outputs] == outputs
    values = _example(Path(place), leaves)
    expected = load_reference(problem).call(*_copied(values))
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name == _KERNELS}
    try:  # the candidate's own copy, as its process imports it
        run: Callable[..., Any] = runpy.run_path(where.partition("::")[0] + _entry(where))[
            candidate.entry_function
        ]
    finally:
        sys.modules.update(before)
    got = run(*_copied(values))
    for ours, theirs in zip(_several(got), _several(expected), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", _CASES)
def test_a_file_that_holds_kernel_reference_and_inputs_is_taken(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `cuassay check FILE` does without --problem."""
    file = tmp_path / "kernel.py"
    file.write_text(
        f"from {__name__} import _CASES\nrun, reference, inputs, *_ = _CASES[{name!r}]\n"
    )
    assert beside.main([str(file), "run", "reference", "inputs"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    problem = load_problem(told["problem"])
    assert [spec.name for spec in problem.inputs] == _CASES[name][3]
    assert [spec.name for spec in problem.outputs] == _CASES[name][4]
    assert load_candidate(told["candidate"], problem).sources


def _entry(where: str) -> str:
    return "" if "::" in where else "/kernel.py"


def _example(place: Path, names: list[str]) -> list[Any]:
    line: Mapping[str, Any] = json.loads((place / "workload.jsonl").read_text().splitlines()[0])
    tensors = load_file(place / "example0.safetensors")
    return [tensors[n] if n in tensors else line["inputs"][n]["value"] for n in names]


def _copied(values: list[Any]) -> list[Any]:
    return [v.clone() if torch.is_tensor(v) else v for v in values]


def _several(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def test_what_is_held_is_said() -> None:
    from cuassay import formats

    place, _ = prepare(kernels.configured, references.configured, _CONFIGURED)
    notes: list[str] = []
    formats.load_problem(place, notes=notes)
    (note,) = [note for note in notes if "as the example has them" in note]
    assert "mode = 'mean'" in note
    assert "kind = Mode.MEAN" in note


@pytest.mark.usefixtures("judge_of_plain_calls")
def test_a_configured_kernel_that_is_wrong_is_rejected_with_its_cause() -> None:
    verdict = cuassay.check(
        kernels.unscaled, references.configured, inputs=_CONFIGURED, profile="quick", device="cpu"
    )
    assert verdict.decision.value == "REJECTED"
    assert verdict.diagnoses[0].cause in (Cause.INPUT_IGNORED, Cause.TERM_OMITTED)


def test_examples_of_other_structure_are_refused() -> None:
    two = [{"xs": [_X], "weights": (_X,)}, {"xs": [_X, _X], "weights": (_X, _X)}]
    with pytest.raises(ProblemError, match="differ in more than tensors"):
        prepare(kernels.lists, references.lists, two)


def test_a_kernel_that_stands_in_no_file_is_refused() -> None:
    with pytest.raises(CandidateError, match="not defined at the top level"):
        prepare(lambda state: state, references.nested, {"state": {"a": _X, "more": {"b": _X}}})


def test_a_reference_that_does_nothing_is_refused() -> None:
    with pytest.raises(ProblemError, match="returned None and changed no input"):
        prepare(kernels.into, _nothing, {"x": _X, "out": torch.zeros(6, 10)})


def _nothing(x: torch.Tensor, out: torch.Tensor) -> None:
    """Do nothing."""

"""The shape of definitions and workloads: what is read, and what a mistake is told."""

from __future__ import annotations

from typing import Any

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.sol.schema import (
    ConfigModel,
    ConstAxisModel,
    DefinitionModel,
    ExprAxisModel,
    SafetensorsModel,
    ScalarModel,
    VarAxisModel,
    WorkloadModel,
)
from cuassay.formats.strict import read_model

_TENSOR = {"shape": ["rows", "8"], "dtype": "float32"}
_DEFINITION: dict[str, Any] = {
    "name": "scale",
    "axes": {
        "rows": {"type": "var"},
        "hidden": {"type": "const", "value": 8},
        "half": {"type": "expr", "expression": "hidden // 2"},
    },
    "inputs": {"x": _TENSOR, "factor": {"shape": None, "dtype": "float32"}},
    "outputs": {"y": _TENSOR},
}


def _definition(**changes: Any) -> DefinitionModel:
    return read_model(
        DefinitionModel, {**_DEFINITION, **changes}, error=ProblemError, strict=True, where="d.json"
    )


def test_axes_are_told_apart_by_their_type() -> None:
    axes = _definition().axes
    assert isinstance(axes["rows"], VarAxisModel)
    assert axes["hidden"] == ConstAxisModel(type="const", value=8)
    assert isinstance(axes["half"], ExprAxisModel)


def test_a_shape_of_null_is_a_number_and_an_empty_one_a_tensor() -> None:
    inputs = _definition(inputs={"n": {"shape": None, "dtype": "int64"},
                                 "t": {"shape": [], "dtype": "int64"}}).inputs  # fmt: skip
    assert (inputs["n"].shape, inputs["t"].shape) == (None, [])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"inputs": {"x": {"shape": [], "dtype": "float33"}}}, "unknown dtype.*float3"),
        ({"axes": {"n": {"type": "variable"}}}, "axes"),
        ({"axes": {"n": {"type": "const", "value": -1}}}, "axes"),
        ({"axes": {"n": {"type": "const", "value": 2**48 + 1}}}, "axes"),
        ({"workload": []}, "workloads stand in workload.jsonl beside definition.json"),
        ({"sources": []}, "this looks like a solution; give it as the kernel"),
        ({"name": ""}, "name"),
        ({"inputs": {"x": {"dtype": "float32"}}}, "inputs"),
    ],
)
def test_a_mistake_is_named_with_its_place(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ProblemError, match=f"(?s)d.json.*{why}"):
        _definition(**changes)


def _workload(**given: Any) -> WorkloadModel:
    return read_model(
        WorkloadModel, {"axes": {"rows": 4}, **given}, error=ProblemError, strict=True, where="w:1"
    )


def test_a_workload_binds_sizes_and_names_sources() -> None:
    made = _workload(
        inputs={
            "factor": {"type": "scalar", "value": 2},
            "x": {"type": "safetensors", "path": "t.safetensors", "tensor_key": "x"},
        }
    )
    assert made.axes == {"rows": 4}
    assert isinstance(made.inputs["factor"], ScalarModel)
    assert isinstance(made.inputs["x"], SafetensorsModel)
    assert made.tolerance is None


def test_a_tolerance_has_the_benchmarks_defaults_and_its_older_name() -> None:
    plain = _workload(tolerance={}).tolerance
    assert plain is not None
    assert (plain.max_atol, plain.max_rtol, plain.required_matched_ratio) == (1e-2, 1e-2, 0.99)
    older = read_model(
        WorkloadModel,
        {"axes": {}, "tolerance": {"required_match_ratio": 0.5}},
        error=ProblemError,
        where="w:2",
    ).tolerance
    assert older is not None
    assert older.required_matched_ratio == 0.5


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"max_atol": 1e-3}, r"it belongs inside 'tolerance' \('tolerance.max_atol'\)"),
        ({"tolerance": {"max_atol": -1.0}}, "tolerance"),
        ({"tolerance": {"required_matched_ratio": 0.0}}, "tolerance"),
        ({"inputs": {"x": {"type": "file"}}}, "inputs"),
    ],
)
def test_a_mistake_in_a_workload_says_where_it_belongs(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ProblemError, match=f"(?s)w:1.*{why}"):
        _workload(**given)


def test_how_a_benchmark_times_is_read_to_catch_mistakes() -> None:
    assert (
        read_model(ConfigModel, {"seed": 3}, error=ProblemError, strict=True, where="c").seed == 3
    )
    with pytest.raises(ProblemError, match=r"(?s)c.*warmup"):
        read_model(ConfigModel, {"warmups": 3}, error=ProblemError, strict=True, where="c")

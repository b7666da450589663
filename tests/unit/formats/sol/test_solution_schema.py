"""The shape of solutions and of launch declarations."""

from __future__ import annotations

from typing import Any

import pytest

from cuassay.errors import CandidateError
from cuassay.formats.sol.solution_schema import (
    CUDA_LANGUAGES,
    PYTHON_LANGUAGES,
    LaunchFileModel,
    SolutionModel,
)
from cuassay.formats.strict import read_model

_SPEC = {"languages": ["triton"], "target_hardware": ["LOCAL"], "entry_point": "kernel.py::run"}
_SOLUTION: dict[str, Any] = {
    "name": "mine",
    "definition": "scale",
    "author": "me",
    "spec": _SPEC,
    "sources": [{"path": "kernel.py"}],
}
_LAUNCH = {"kernel": "k", "grid": "rows", "block": [32, 1], "arguments": ["x", "y"]}


def _solution(**changes: Any) -> SolutionModel:
    return read_model(
        SolutionModel, {**_SOLUTION, **changes}, error=CandidateError, strict=True, where="s.json"
    )


def _launches(**given: Any) -> LaunchFileModel:
    return read_model(LaunchFileModel, given, error=CandidateError, strict=True, where="k.toml")


def test_a_solution_has_the_benchmarks_defaults() -> None:
    made = _solution()
    assert made.spec.destination_passing_style
    assert made.spec.compile_options is None
    assert made.sources[0].content is None  # read from the file beside it
    flags = _solution(spec={**_SPEC, "compile_options": {}}).spec.compile_options
    assert flags is not None
    assert flags.cuda_cflags == ["-O3", "--use_fast_math"]


@pytest.mark.parametrize("language", [*PYTHON_LANGUAGES, *CUDA_LANGUAGES])
def test_every_language_of_the_benchmark_is_known(language: str) -> None:
    assert _solution(spec={**_SPEC, "languages": [language]}).spec.languages == [language]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"spec": {**_SPEC, "languages": ["tritn"]}}, "unknown language.*triton"),
        ({"spec": {**_SPEC, "target_hardware": ["b200"]}}, "unknown hardware.*B200"),
        ({"spec": {**_SPEC, "languages": []}}, "languages"),
        ({"spec": {**_SPEC, "language": "triton"}}, "did you mean 'languages', a list"),
        ({"spec": {**_SPEC, "binding": "ctypes"}}, "binding"),
        ({"sources": []}, "sources"),
        ({"axes": {}}, "this looks like a problem's definition; give it with --problem"),
    ],
)
def test_a_mistake_in_a_solution_is_named(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(CandidateError, match=f"(?s)s.json.*{why}"):
        _solution(**changes)


def test_extents_are_sizes_or_expressions_one_to_three_of_them() -> None:
    (launch,) = _launches(launches=[_LAUNCH]).launches
    assert (launch.grid, launch.block, launch.cluster) == ("rows", [32, 1], 1)
    assert launch.shared_bytes == 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"launches": []}, "launches"),
        ({"launches": [{**_LAUNCH, "grid": [1, 1, 1, 1]}]}, "grid"),
        ({"launch": [_LAUNCH]}, r"did you mean 'launches' \(\[\[launches\]\]\)"),
        ({"launches": [_LAUNCH], "grid": 1}, r"it belongs inside a \[\[launches\]\] table"),
        (
            {"launches": [_LAUNCH], "tensor_maps": [{"name": "m", "tensor": "x", "swizzle": 48}]},
            "swizzle",
        ),
        ({"launches": [_LAUNCH], "scratch": [{"name": "s", "dtype": "float32"}]}, "size"),
    ],
)
def test_a_mistake_in_a_launch_file_says_where_it_belongs(given: dict[str, Any], why: str) -> None:
    with pytest.raises(CandidateError, match=f"(?s)k.toml.*{why}"):
        _launches(**given)

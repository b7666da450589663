"""Mistakes in SOL-ExecBench problems: one message with place, value, expectation, remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cuassay.errors import ProblemError
from cuassay.formats import load_problem
from cuassay.model.problem import (
    CustomSource,
    RandomSource,
)
from tests.support.sol_files import DATA, Edit, Json, edit_definition, edit_workload


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLASHINFER_TRACE_DIR", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "affine_rows", tmp_path / "affine_rows"))


@pytest.fixture
def scatter(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "scatter_rows", tmp_path / "scatter_rows"))


def _set(*path: str, to: object) -> Edit:
    def edit(data: Json) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = to

    return edit


def _drop(*path: str) -> Edit:
    def edit(data: Json) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return edit


BAD_DEFINITIONS: list[tuple[Edit, str]] = [
    (_set("axis", to={}), r"unknown key 'axis': did you mean 'axes'\?"),
    (_set("tolerance", to={}), r"a tolerance stands in each line of workload\.jsonl"),
    (_set("name", to=""), r"name: expected .*at least 1 character"),
    (_drop("outputs"), r"outputs is missing: add it"),
    (_set("outputs", to={}), r"outputs is empty: declare at least one output"),
    (_set("axes", "rows", "type", to="vary"), r"axes\.rows\.type: unknown type 'vary': did you"),
    (_set("axes", "rows", to={}), r"axes\.rows: expected an object with a 'type'"),
    (_set("axes", "rows", to=7), r"axes\.rows: .*got the number 7"),
    (_set("axes", "width", "value", to=-8), r"axes\.width\.value: expected greater than or equal"),
    (_set("axes", "width", "value", to="8"), r"axes\.width\.value: .*got the string \"8\""),
    (_set("axes", "width", "value", to=True), r"axes\.width\.value: .*got true"),
    (_set("axes", "width", "value", to=0), r"axis 'width' has size 0.*expected 1 or more"),
    (_set("axes", "half", "expression", to="widht // 2"), r"'widht', which is no axis: did you"),
    (_set("axes", "half", "expression", to="double"), r"declare 'double' above 'half'"),
    (_set("axes", "half", "expression", to="abs(width)"), r"uses 'abs', which is no axis"),
    (_set("axes", "half", "expression", to="width <<"), r"axes\.half\.expression 'width <<'"),
    (_set("axes", "half", "expression", to="width / 3"), r"expected an integer"),
    (_set("axes", "two words", to={"type": "var"}), r"'two words' is not a Python identifier"),
    (
        _set("inputs", "x", "shape", to=["row", "width"]),
        r"inputs\.x\.shape\[0\]: unknown axis 'row'",
    ),
    (_set("inputs", "x", "shape", to=["rows", "-1"]), r"'-1': a size cannot be negative"),
    (_set("inputs", "x", "shape", to=["rows", "0"]), r"is '0': a tensor without elements"),
    (_set("inputs", "x", "shape", to=["2*rows"]), r"declare an axis with .*'expr'"),
    (_set("inputs", "x", "shape", to=[4]), r"inputs\.x\.shape\[0\]: expected a valid string"),
    (_set("inputs", "x", "dtype", to="bfloat"), r"unknown dtype: did you mean 'bfloat16'\?"),
    (_set("outputs", "x", to={"shape": [], "dtype": "bool"}), r"outputs\.x has the name of an in"),
    (_set("inputs", "rows", to={"shape": [], "dtype": "bool"}), r"order: expected 'def run\(x"),
    (_set("reference", to="def run(:"), r"reference is not valid Python: line 1"),
    (_set("reference", to="def main(x): pass"), r"no top-level function 'run'.*functions: main"),
    (_set("reference", to="async def run(x): pass"), r"'run' is async, expected a plain"),
    (
        _set("reference", to="def run(x, shift, gain, bias): pass"),
        r"expected 'def run\(x, shift, b",
    ),
    (_set("reference", to="def run(x, shift): pass"), r"missing: bias, gain"),
    (_set("reference", to="def run(*args): pass"), r"run\(\*args\)' must equal the inputs"),
    (_set("custom_inputs_entrypoint", to="make"), r"no top-level function 'make'"),
    (_set("custom_inputs_entrypoint", to="run"), r"cannot be called with two arguments"),
]


@pytest.mark.parametrize(("edit", "message"), BAD_DEFINITIONS)
def test_bad_definitions(folder: Path, edit: Edit, message: str) -> None:
    edit_definition(folder, edit)
    with pytest.raises(ProblemError, match=message) as caught:
        load_problem(str(folder), strict=True)
    assert str(folder) in str(caught.value)


BAD_WORKLOADS: list[tuple[Edit, str]] = [
    (_set("max_atol", to=1), r"'max_atol': it belongs inside 'tolerance'"),
    (_drop("axes"), r"axes is missing: add it"),
    (_drop("axes", "rows"), r'var axis \'rows\' has no size; add "rows": SIZE'),
    (_set("axes", "row", to=2), r"unknown axis 'row': did you mean 'rows'\?"),
    (_set("axes", "rows", to=0), r"axis 'rows' has size 0, so 'x' has no elements.*--strict"),
    (_set("axes", "rows", to=-2), r"axes\.rows: expected greater than or equal to 0, got .*-2"),
    (_set("axes", "rows", to=2.5), r"axes\.rows: expected a valid integer"),
    (_set("axes", "rows", to=10**30), r"axes\.rows: expected less than or equal to"),
    (_set("axes", "half", to=7), r"axes\.half is 7 but its expression gives 4"),
    (_set("inputs", "xx", to={"type": "random"}), r"unknown input 'xx': did you mean 'x'\?"),
    (_set("inputs", "x", to={"type": "normal"}), r"inputs\.x\.type: unknown type 'normal'"),
    (_set("inputs", "x", to={"type": "custom"}), r"has no 'custom_inputs_entrypoint'"),
    (
        _set("inputs", "x", to={"type": "scalar", "value": 1}),
        r"declares a tensor of shape \[rows, w",
    ),
    (_set("inputs", "gain", "value", to=True), r"inputs\.gain\.value is true, expected .*float32"),
    (_set("inputs", "gain", "valeu", to=1), r"'inputs\.gain\.valeu': did you mean 'value'\?"),
    (
        _set("inputs", "gain", to={"type": "safetensors", "path": "a", "tensor_key": "b"}),
        r"is a Python scalar \(shape null\), expected a scalar descriptor",
    ),
    (
        _set("inputs", "shift", to={"type": "safetensors", "path": "a.st", "tensor_key": "b"}),
        r"'a\.st' is not there \(looked in .*FLASHINFER_TRACE_DIR",
    ),
    (_set("tolerance", "max_atol", to=-1), r"tolerance\.max_atol: expected greater than or equal"),
    (_set("tolerance", "max_rtol", to=float("nan")), r"tolerance\.max_rtol: expected a finite"),
    (_set("tolerance", "max_atol", to="1e-2"), r"tolerance\.max_atol: expected a valid number"),
    (_set("tolerance", "required_matched_ratio", to=99), r"less than or equal to 1, got .*99"),
    (
        _set("tolerance", "max_error_cap", to=0),
        r"tolerance\.max_error_cap: expected greater than 0",
    ),
    (_set("uuid", to="large"), r"line 3: uuid 'large' was used by an earlier line"),
]


@pytest.mark.parametrize(("edit", "message"), BAD_WORKLOADS)
def test_bad_workloads_name_file_and_line(folder: Path, edit: Edit, message: str) -> None:
    edit_workload(folder, edit)
    with pytest.raises(ProblemError, match=message) as caught:
        load_problem(str(folder), strict=True)
    assert f"{folder / 'workload.jsonl'}: line " in str(caught.value)


def test_custom_for_one_input_needs_custom_for_all(scatter: Path) -> None:
    edit_workload(scatter, _set("inputs", "ids", to={"type": "random"}))
    with pytest.raises(ProblemError, match=r"inputs\.values is custom but 'ids' is not"):
        load_problem(str(scatter), strict=True)
    sources = load_problem(str(scatter)).workloads[0].sources
    assert sources == {"values": CustomSource(), "ids": RandomSource()}


def test_empty_workloads_are_left_out_and_repeated_ones_renamed(folder: Path) -> None:
    edit_workload(folder, _set("axes", "rows", to=0))
    line = (folder / "workload.jsonl").read_text().splitlines()[-1]
    with (folder / "workload.jsonl").open("a") as file:
        file.write("\n" + line)
    notes: list[str] = []
    problem = load_problem(str(folder), notes=notes)
    assert [workload.id for workload in problem.workloads] == ["large", "large-3"]
    assert any("1 of 3 workloads are left out: " in note for note in notes)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("definition.json", b'{"name": }', r"line 1, column 10: not valid JSON.*\(near '}'\)"),
        ("definition.json", b'{"name": "a",\n "axes": {', r"line 2, column 11: .*at its end"),
        ("definition.json", b"[1]", r"expected a JSON object \{\.\.\.\}, got an array"),
        ("definition.json", b"", r"line 1, column 1: not valid JSON"),
        ("definition.json", b"\0\1", r"is a binary file \(a null byte at offset 0\)"),
        ("definition.json", b"\xff\xfe{", r"is not UTF-8 text \(byte 0xff at offset 0\)"),
        ("definition.json", b'{"a": 1, "a": 2}', r"key 'a' stands twice"),
        ("definition.json", b"[" * 100_000, r"nested too deeply"),
        ("definition.json", b'{"a": ' + b"1" * 5000 + b"}", r"line 1: .*digits"),
        ("workload.jsonl", b"", r"holds no workload: expected one JSON object a line"),
        ("workload.jsonl", b"\n \n", r"holds no workload"),
        ("workload.jsonl", b'\n{"uuid": 1', r"line 2, column 11: not valid JSON"),
        ("workload.jsonl", b"\n\n3", r"line 3: expected a JSON object .* got the number 3"),
    ],
)
def test_unreadable_files(folder: Path, name: str, content: bytes, message: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(ProblemError, match=message) as caught:
        load_problem(str(folder))
    assert str(folder / name) in str(caught.value)


def test_missing_workload_file(folder: Path) -> None:
    (folder / "workload.jsonl").unlink()
    with pytest.raises(ProblemError, match=r"workload\.jsonl does not exist: .*put workload"):
        load_problem(str(folder))


def test_missing_reference(folder: Path) -> None:
    edit_definition(folder, _set("reference", to=" "))
    (folder / "reference.py").unlink()
    with pytest.raises(ProblemError, match=r"'reference' is empty and there is no reference\.py"):
        load_problem(str(folder))


def test_a_huge_file_is_not_read(folder: Path) -> None:
    with (folder / "workload.jsonl").open("wb") as file:
        file.truncate(2**28)  # sparse: takes no room
    with pytest.raises(ProblemError, match=r"has 268435456 bytes, expected at most"):
        load_problem(str(folder))


def test_workload_file_without_a_definition(folder: Path) -> None:
    (folder / "definition.json").unlink()
    with pytest.raises(ProblemError, match=r"holds workloads only"):
        load_problem(str(folder / "workload.jsonl"))


def test_unwritable_cache_names_the_remedy(folder: Path, tmp_path: Path) -> None:
    (folder / "reference.py").unlink()
    (tmp_path / "home").write_text("a file where the folder should be")
    with pytest.raises(ProblemError, match=r"set CUASSAY_HOME to a writable folder"):
        load_problem(str(folder))


def test_a_list_of_workloads_without_end_is_one_message(tmp_path: Path) -> None:
    from cuassay.formats.sol.workload import json_lines

    with pytest.raises(ProblemError, match="has 20000 lines, expected at most 10000"):
        next(json_lines("{}\n" * 20000, where="workload.jsonl"))

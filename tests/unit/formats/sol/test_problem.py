"""SOL-ExecBench problems: every feature of the format is read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuassay.errors import ProblemError
from cuassay.formats import load_problem
from cuassay.model.axes import resolve
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    ConstAxis,
    CustomSource,
    ExprAxis,
    RandomSource,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    Tolerance,
    VarAxis,
)
from tests.support.sol_files import DATA, edit_definition, edit_workload


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLASHINFER_TRACE_DIR", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "affine_rows", tmp_path / "affine_rows"))


def test_every_field_of_a_definition_is_read() -> None:
    problem = load_problem(str(DATA / "affine_rows"))
    assert problem.name == "affine_rows"
    assert problem.description == "Scale, shift and fold rows."
    assert problem.constraints == ("rows >= 1",)
    rows, width, half, double = problem.axes
    assert rows == VarAxis(name="rows", description="independent rows")
    assert (width, half) == (
        ConstAxis(name="width", value=8),
        ExprAxis(name="half", expression="width // 2"),
    )
    assert resolve(problem.axes, {"rows": 2}) == {"rows": 2, "width": 8, "half": 4, "double": 16}
    assert isinstance(double, ExprAxis)
    x, _, bias, gain = problem.inputs
    assert isinstance(x, TensorSpec)
    assert (x.dtype, x.shape) == (DType.BFLOAT16, ("rows", "width"))
    assert isinstance(bias, TensorSpec)
    assert (bias.shape, bias.description) == ((), "a 0-d tensor")
    assert isinstance(gain, ScalarSpec)
    assert gain.default == 2.0
    assert [(spec.name, spec.shape) for spec in problem.outputs] == [
        ("y", ("rows", "width")),
        ("z", ("rows", "1")),
    ]
    assert len(problem.digest) == 64


def test_bounds_of_var_axes_are_guesses() -> None:
    axis = load_problem(str(DATA / "affine_rows")).var_axes()[0]
    assert (axis.minimum, axis.maximum, axis.declared) == (1, None, False)


def test_workloads_carry_sources_and_tolerance() -> None:
    small, large = load_problem(str(DATA / "affine_rows")).workloads
    assert (small.id, small.axes) == ("small", {"rows": 3})
    assert small.sources == {
        "x": RandomSource(),
        "shift": RandomSource(),
        "bias": RandomSource(),
        "gain": ScalarSource(value=2.0),
    }
    assert small.tolerance == Tolerance(
        atol=1e-3,
        rtol=2e-3,
        required_matched_ratio=0.95,
        max_error_cap=1.5,
        allow_negative_inf=True,
        origin="workload",
    )
    assert large.tolerance == Tolerance()


def test_custom_inputs_name_their_generator() -> None:
    problem = load_problem(str(DATA / "scatter_rows"))
    assert problem.reference.generator == "make_inputs"
    assert set(problem.workloads[0].sources.values()) == {CustomSource()}


def test_identical_reference_beside_the_definition_is_used(folder: Path) -> None:
    assert load_problem(str(folder)).reference.path == folder / "reference.py"


def test_reference_source_becomes_a_real_file(folder: Path, tmp_path: Path) -> None:
    (folder / "reference.py").write_text("# stale\n")
    notes: list[str] = []
    problem = load_problem(str(folder), notes=notes)
    assert problem.reference.path.is_relative_to(tmp_path / "home")
    assert problem.reference.path.read_text() == problem.reference.source
    assert "differs from definition.json" in notes[0]


def test_empty_reference_is_read_beside_the_file(folder: Path) -> None:
    edit_definition(folder, lambda data: data.update(reference=""))
    assert "def run" in load_problem(str(folder)).reference.source


def test_a_definition_file_and_a_workload_file_name_the_same_problem(folder: Path) -> None:
    whole = load_problem(str(folder))
    assert load_problem(str(folder / "definition.json")) == whole
    assert load_problem(str(folder / "workload.jsonl")) == whole


def test_single_file_with_columns_of_json_text(folder: Path, tmp_path: Path) -> None:
    data = json.loads((folder / "definition.json").read_text())
    lines = (folder / "workload.jsonl").read_text().splitlines()
    data["workloads"] = [json.loads(line) for line in lines if line]
    for column in ("axes", "inputs", "outputs", "workloads"):
        data[column] = json.dumps(data[column])
    file = tmp_path / "row.json"
    file.write_text(json.dumps(data))
    problem = load_problem(str(file))
    assert problem.workloads == load_problem(str(folder)).workloads


def test_single_file_with_its_own_workload_file(folder: Path) -> None:
    (folder / "definition.json").rename(folder / "op.json")
    (folder / "workload.jsonl").rename(folder / "op.jsonl")
    assert len(load_problem(str(folder / "op.json")).workloads) == 2


def test_packed_fp4_has_an_alias(folder: Path) -> None:
    edit_definition(folder, lambda data: data["inputs"]["shift"].update(dtype="float4_e2m1"))
    assert load_problem(str(folder)).input("shift").dtype is DType.FLOAT4_E2M1FN_X2


def test_a_workload_may_override_a_constant_and_a_note_says_so(folder: Path) -> None:
    edit_workload(folder, lambda data: data["axes"].update(width=16))
    notes: list[str] = []
    problem = load_problem(str(folder), notes=notes)
    assert resolve(problem.axes, problem.workloads[0].axes)["double"] == 32
    assert notes == [f"{folder / 'workload.jsonl'}: line 1: axes.width overrides 8 by 16"]


def test_integral_float_for_an_integer_scalar_is_read_with_a_note(folder: Path) -> None:
    edit_definition(folder, lambda data: data["inputs"]["gain"].update(dtype="int32"))
    (folder / "workload.jsonl").write_text(
        '{"uuid": "a", "axes": {"rows": 1}, "inputs": {"gain": {"type": "scalar", "value": 3.0}}}'
    )
    notes: list[str] = []
    source = load_problem(str(folder), notes=notes).workloads[0].sources["gain"]
    assert source == ScalarSource(value=3)
    assert "read 3.0 as the integer 3" in notes[0]


def test_strictly_a_misspelt_tolerance_is_refused_with_key_line_and_suggestion(
    folder: Path,
) -> None:
    with (folder / "workload.jsonl").open("a") as file:
        file.write('{"uuid": "c", "axes": {"rows": 1}, "tolerance": {"required_match_ratio": 1}}')
    with pytest.raises(ProblemError) as caught:
        load_problem(str(folder), strict=True)
    message = str(caught.value)
    assert f"{folder / 'workload.jsonl'}: line 4: " in message
    assert "'tolerance.required_match_ratio': did you mean 'required_matched_ratio'?" in message
    assert "--strict" in message


def test_unknown_keys_are_notes(folder: Path) -> None:
    edit_workload(folder, lambda data: data["tolerance"].update(max_atl=0.5, who=1))
    edit_definition(folder, lambda data: data["axes"]["rows"].update(unit="tokens"))
    notes: list[str] = []
    problem = load_problem(str(folder), notes=notes)
    rule = problem.workloads[0].tolerance
    assert rule is not None
    assert rule.required_matched_ratio == 0.95
    assert len(notes) == 3
    assert "'axes.rows.unit'" in notes[0]
    assert "did you mean 'max_atol'" in notes[1]


def test_a_field_that_real_files_misname_is_read(folder: Path) -> None:
    def rename(data: dict[str, Any]) -> None:
        del data["tolerance"]["required_matched_ratio"]
        data["tolerance"]["required_match_ratio"] = 0.5

    edit_workload(folder, rename)
    notes: list[str] = []
    problem = load_problem(str(folder), notes=notes)
    rule = problem.workloads[0].tolerance
    assert rule is not None
    assert rule.required_matched_ratio == 0.5
    assert notes == []


def test_an_axis_that_only_the_workloads_bind_is_kept_within_their_sizes(folder: Path) -> None:
    text = (folder / "workload.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines() if line]
    for number, line in enumerate(lines):
        line["axes"]["joint"] = number
    (folder / "workload.jsonl").write_text("\n".join(map(json.dumps, lines)))
    notes: list[str] = []
    problem = load_problem(str(folder), notes=notes)
    assert problem.axes[-1] == VarAxis(name="joint", minimum=0, maximum=1)
    assert [workload.axes["joint"] for workload in problem.workloads] == [0, 1]
    assert "'joint', which the definition does not declare" in notes[0]


def test_inputs_that_only_a_workload_names_are_ignored_with_one_note(folder: Path) -> None:
    edit_workload(folder, lambda data: data["inputs"].update(bias1={"type": "random"}))
    notes: list[str] = []
    assert "bias1" not in load_problem(str(folder), notes=notes).workloads[0].sources
    assert [note for note in notes if "ignored in 1 of 2 workloads: unknown input 'bias1'" in note]


def test_a_workload_without_its_stored_tensor_is_left_out(folder: Path) -> None:
    stored = {"type": "safetensors", "path": "gone.safetensors", "tensor_key": "x"}
    edit_workload(folder, lambda data: data["inputs"].update(x=stored))
    notes: list[str] = []
    problem = load_problem(str(folder), notes=notes)
    assert len(problem.workloads) == 1
    assert "1 of 2 workloads are left out" in notes[0]
    assert "gone.safetensors" in notes[0]


def test_config_is_checked_too(folder: Path) -> None:
    (folder / "config.json").write_text('{"warmup_run": 3}')
    with pytest.raises(ProblemError, match=r"config\.json: .*did you mean 'warmup_runs'"):
        load_problem(str(folder), strict=True)


def test_reading_a_problem_and_a_kernel_loads_no_torch() -> None:
    code = (
        "import sys; from cuassay import formats; assert 'pydantic' not in sys.modules;"
        f"p = formats.load_problem({str(DATA / 'affine_rows')!r});"
        f"formats.load_candidate({str(DATA / 'kernels' / 'raw.cu')!r}, p);"
        "assert 'torch' not in sys.modules"
    )
    path = ":".join(entry for entry in sys.path if entry)
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path})

"""Problems of a tree, told by their files; nothing that a candidate brings defines one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cuassay.audit.found import FoundProblem
from cuassay.audit.problems import problems_in
from cuassay.audit.walk import walk
from cuassay.model.audit import Oddity

_DEFINITION = json.dumps({"name": "norm", "axes": {}, "inputs": {}, "outputs": {},
                          "op_type": "rmsnorm", "reference": "def run(): ..."})  # fmt: skip
_NATIVE = "from cuassay import problem\n\n@problem(workloads=[])\ndef scale(x):\n    return x\n"
_TWO = (
    _NATIVE + "\n@problem(\n    workloads=[],\n)\n@torch.no_grad()\ndef shift(x):\n    return x\n"
)
_MODEL = (
    "import torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x): return x\n"
    "def get_inputs(): return []\ndef get_init_inputs(): return []\n"
)


def _found(root: Path, files: Mapping[str, str]) -> tuple[list[FoundProblem], list[Oddity]]:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    oddities: list[Oddity] = []
    return list(problems_in(list(walk(root, oddities)), oddities)), oddities


def _names(found: FoundProblem) -> set[str]:
    return {path.name for path in found.files}


def test_a_definition_comes_with_what_its_reading_depends_on(tmp_path: Path) -> None:
    files = {
        "norm/definition.json": _DEFINITION,
        "norm/workload.jsonl": "{}",
        "norm/cuassay.toml": "",
        "norm/weights.safetensors": "",
        "norm/notes.md": "",
        "norm/recorded/calls.jsonl": "{}",
    }
    (found,), oddities = _found(tmp_path, files)
    assert (found.name, found.format, found.op_type) == ("norm", "sol-execbench", "rmsnorm")
    assert found.where == str(tmp_path / "norm")
    assert _names(found) == {
        "definition.json", "workload.jsonl", "cuassay.toml", "weights.safetensors", "calls.jsonl",
    }  # fmt: skip
    assert oddities == []


def test_a_definition_that_cannot_be_read_stays_a_problem(tmp_path: Path) -> None:
    (found,), (oddity,) = _found(tmp_path, {"norm/definition.json": "{"})
    assert (found.name, found.op_type) == ("norm", "")
    assert oddity.message.startswith("cannot be read: ")


@pytest.mark.parametrize("folder", ["candidates", "solutions", "submissions"])
def test_nothing_in_a_folder_of_candidates_defines_a_problem(tmp_path: Path, folder: str) -> None:
    files = {
        "norm/definition.json": _DEFINITION,
        f"norm/{folder}/mine/definition.json": _DEFINITION,
        f"norm/{folder}/mine/problem.py": _NATIVE,
        f"norm/{folder}/mine/task.yml": "",
    }
    (found,), oddities = _found(tmp_path, files)
    assert found.where == str(tmp_path / "norm")
    assert sorted(Path(one.path).name for one in oddities) == ["definition.json", "task.yml"]


def test_what_lies_below_a_kernel_is_the_kernels(tmp_path: Path) -> None:
    files = {"mine/kernel.py": "def run(x): return x\n", "mine/helpers/problem.py": _NATIVE}
    assert _found(tmp_path, files)[0] == []


def test_each_problem_of_a_file_has_a_name_and_a_folder_of_its_own(tmp_path: Path) -> None:
    (one,), _ = _found(tmp_path / "one", {"scale.py": _NATIVE})
    assert (one.where, one.name) == (str(tmp_path / "one/scale.py"), "scale")
    assert one.folder == tmp_path / "one/scale"
    (first, second), _ = _found(tmp_path / "two", {"problem.py": _TWO})
    place = tmp_path / "two/problem.py"
    assert [first.where, second.where] == [f"{place}:scale", f"{place}:shift"]
    assert second.folder == tmp_path / "two/shift"
    assert second.aliases == ("problem",)


def test_a_task_ships_its_modules_but_no_submission(tmp_path: Path) -> None:
    files = {
        "tasks/utils.py": "",
        "tasks/scale_py/task.yml": "",
        "tasks/scale_py/reference.py": "",
        "tasks/scale_py/submission_fast.py": "",
    }
    (found,), _ = _found(tmp_path, files)
    assert found.format == "gpumode"
    assert _names(found) == {"task.yml", "reference.py", "utils.py"}
    assert found.aliases == ("scale_py", "scale")


def test_a_kernelbench_problem_has_the_names_that_generated_files_use(tmp_path: Path) -> None:
    (found,), _ = _found(tmp_path, {"level1/23_Softmax.py": _MODEL})
    assert found.format == "kernelbench"
    assert found.aliases == ("23_Softmax", "level1/23_Softmax", "level_1_problem_23")
    answer = _MODEL.replace("class Model(", "class ModelNew(")
    assert _found(tmp_path / "other", {"level1/23_Softmax.py": answer})[0] == []


def test_definitions_of_a_trace_find_their_workloads(tmp_path: Path) -> None:
    files = {
        "definitions/norm/a.json": _DEFINITION,
        "workloads/norm/a.jsonl": "{}",
        "definitions/norm/other.json": "{}",
        "definitions/norm/broken.json": "{",
    }
    (found,), oddities = _found(tmp_path, files)
    assert (found.format, found.aliases) == ("flashinfer-trace", ("a",))
    assert _names(found) == {"a.json", "a.jsonl"}
    assert [one.message.partition(":")[0] for one in oddities] == [
        "cannot be read", "is no definition",
    ]  # fmt: skip

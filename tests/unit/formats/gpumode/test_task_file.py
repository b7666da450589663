"""task.yml of GPU MODE: its files, its arguments, and source that names a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.gpumode.task_file import on_any_device, read_task, tolerance

_TASK = """
files:
  - {name: reference.py, source: reference.py}
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: eval.py, source: ../eval.py}
  - {name: utils.py, source: ../utils.py}
  - {name: task.py, source: task.py}
tests:
  - {size: 128, seed: 1}
benchmarks:
  - {size: 1024, seed: 2}
description: |
  Scale a vector.
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "scale"
    folder.mkdir()
    (folder / "task.yml").write_text(_TASK)
    (folder / "reference.py").write_text("import task\nx = make('cuda')\n")
    (folder / "task.py").write_text("from utils import one\n")
    (tmp_path / "utils.py").write_text("one = 1\n")
    return folder


def test_a_task_has_its_reference_its_modules_and_its_arguments(task: Path) -> None:
    found = read_task(task)
    assert (found.name, found.description) == ("scale", "Scale a vector.")
    assert found.reference == "import task\nx = make(_cuassay_device())\n"
    assert list(found.files) == ["utils", "task"]  # what others import comes first
    assert found.places["utils"].resolve() == (task.parent / "utils.py").resolve()
    assert [dict(case) for case in found.tests] == [{"size": 128, "seed": 1}]
    assert [dict(case) for case in found.benchmarks] == [{"size": 1024, "seed": 2}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tests: []", "'files' is missing"),
        ("files: [{name: a.py, source: task.py}]", "there is no reference.py"),
        (_TASK.replace("  - {size: 128, seed: 1}", "  size: 128"), "'tests' is no list of"),
        ("files: [{name: reference.py, source: absent.py}]", "absent.py does not exist"),
    ],
)
def test_what_a_task_lacks_is_named(task: Path, text: str, why: str) -> None:
    (task / "task.yml").write_text(text)
    with pytest.raises(ProblemError, match=why):
        read_task(task)
    (task / "task.yml").unlink()
    with pytest.raises(ProblemError, match=r"has no task\.yml"):
        read_task(task)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = torch.ones(3, device='cuda')", "x = torch.ones(3, device=_cuassay_device())"),
        ('y = x.to("cuda:0")', "y = x.to(_cuassay_device())"),
        ("y = x.cuda()", "y = x.to(_cuassay_device())"),
        ("y = x.cuda(non_blocking=True)", "y = x.to(_cuassay_device(), non_blocking=True)"),
        ("torch.cuda.synchronize()", "torch.cuda.synchronize()"),
        ("# move it to 'cuda'", "# move it to 'cuda'"),
        ("text = 'on cuda'", "text = 'on cuda'"),
        ("f(x.cuda(), 'cuda')", "f(x.to(_cuassay_device()), _cuassay_device())"),
        ("this is (no python", "this is (no python"),
    ],
)
def test_a_device_is_asked_of_the_judge(text: str, told: str) -> None:
    assert on_any_device(f"a = 1\n{text}\n") == f"a = 1\n{told}\n"


@pytest.mark.parametrize(
    ("text", "atol", "rtol"),
    [
        ("check = make_match_reference(ref, rtol=1e-3, atol=2e-3)", 2e-3, 1e-3),
        ("check = make_match_reference(\n    ref,\n    rtol=1e-2,\n)", 1e-8, 1e-2),
        ("check = make_match_reference(ref, rtol=tolerance())", 1e-8, 1e-5),
        ("", 1e-8, 1e-5),
    ],
)
def test_a_tolerance_is_what_the_reference_states(text: str, atol: float, rtol: float) -> None:
    found = tolerance(text)
    assert (found.atol, found.rtol, found.required_matched_ratio) == (atol, rtol, 1.0)

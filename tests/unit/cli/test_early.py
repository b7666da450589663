"""What is said before a trial starts: syntax errors, a kernel's problem, an unwritable home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuassay.cli.early import found_problem, syntax_error
from cuassay.cli.main import main
from cuassay.errors import UsageError
from cuassay.formats import load_candidate, load_problem
from tests.support import fake_engine, samples


def test_a_syntax_error_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x):\n    return x = = 3\n")
    assert main(["check", str(kernel), "--problem", "rmsnorm"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("REJECTED")
    assert "kernel.py:2  return x = = 3" in out
    assert fake.jobs == []


def test_the_line_of_a_syntax_error_is_that_of_the_file_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text("import torch\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kernel.py").write_text("def run(x:\n    return x\n")
    assert main(["check", "mine/kernel.py", "--problem", "gemm"]) == 1
    assert "line        mine/kernel.py:1  def run(x:" in capsys.readouterr().out


def test_a_null_byte_is_on_no_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kernel.py").write_bytes(b"x = 1\n\0")
    found = syntax_error(str(tmp_path / "kernel.py"))
    if found is not None:  # older Pythons raise ValueError
        assert main(["check", str(tmp_path / "kernel.py"), "--problem", "gemm"]) == 1
        assert ":None" not in capsys.readouterr().out


def test_a_pipe_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "kernel.py")
    assert main(["check", str(tmp_path / "kernel.py"), "--problem", "gemm"]) == 2
    assert "is a device or a pipe" in capsys.readouterr().err


def test_a_kernel_called_like_an_operator_needs_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    kernel = tmp_path / "rmsnorm.py"
    kernel.write_text("def run(x, weight, eps):\n    return x\n")
    assert main(["check", str(kernel)]) == 0
    assert fake.jobs[0].problem == "rmsnorm"
    assert "judging against rmsnorm" in capsys.readouterr().err
    assert main(["check", str(kernel), "-q"]) == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (1, "")
    kernel.write_text("def run(x, weight, eps:\n")
    assert main(["check", str(kernel), "-q"]) == 1
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (1, "")
    assert out.startswith("REJECTED ")


def test_a_file_that_declares_its_problem_is_judged_against_it(tmp_path: Path) -> None:
    file = tmp_path / "scale.py"
    file.write_text("@problem(axes={})\ndef scale(x):\n    ...\n\ndef run(x):\n    ...\n")
    found = found_problem(str(file))
    assert (found.problem, found.why) == (f"{file}:scale", "the file declares it as 'scale'")


_MODEL = "class Model:\n    ...\n\ndef get_inputs():\n    ...\n"


def test_a_kernelbench_pair_is_found(tmp_path: Path) -> None:
    kernel = tmp_path / "19_relu_new.py"
    kernel.write_text("class ModelNew:\n    ...\n")
    (tmp_path / "19_relu.py").write_text(_MODEL)
    (tmp_path / "20_gelu.py").write_text(_MODEL)
    assert found_problem(str(kernel)).problem == str(tmp_path / "19_relu.py")
    alone = tmp_path / "both.py"
    alone.write_text(_MODEL + "class ModelNew:\n    ...\n")
    assert found_problem(str(alone)).problem == str(alone)


def test_two_kernelbench_problems_that_fit_alike_are_named(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("class ModelNew:\n    ...\n")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(_MODEL)
    with pytest.raises(UsageError, match=r"a\.py, b\.py"):
        found_problem(str(kernel))


_BESIDE = """\
import torch


def fused(x, *, scale, mode="twice"):
    return x * scale


def reference(x, *, scale, mode="twice"):
    return x * scale


def inputs():
    return {"x": torch.ones(4, 6), "scale": 2.0, "mode": "twice"}
"""


def test_a_reference_beside_the_kernel_is_taken_with_its_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    kernel = tmp_path / "scale_kernel.py"
    kernel.write_text(_BESIDE)
    assert main(["check", str(kernel)]) == 0
    assert "'fused' against the function 'reference' of the same file" in capsys.readouterr().err
    problem = load_problem(fake.jobs[0].problem)
    assert [spec.name for spec in problem.inputs] == ["x", "scale"]
    assert load_candidate(fake.jobs[0].candidate, problem).entry_function == "run"


def test_a_reference_without_inputs_or_with_two_kernels_is_a_usage_error(tmp_path: Path) -> None:
    kernel = tmp_path / "k.py"
    kernel.write_text("def run(x): ...\n\ndef reference(x): ...\n")
    with pytest.raises(UsageError, match="none that returns its inputs"):
        found_problem(str(kernel))
    kernel.write_text("def a(x): ...\ndef b(x): ...\ndef reference(x): ...\ndef inputs(): ...\n")
    with pytest.raises(UsageError, match=r"\(a, b\) is the kernel"):
        found_problem(str(kernel))
    assert found_problem(f"{kernel}::b").kernel.endswith("k.py::b")


def test_what_a_reference_beside_the_kernel_raises_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "k.py"
    kernel.write_text(_BESIDE.replace('return {"x"', 'return {}\n    return {"x"'))
    assert main(["check", str(kernel)]) == 2
    err = capsys.readouterr().err
    assert "inputs is empty" in err
    assert "Traceback" not in err


def test_a_kernel_that_nothing_says_the_problem_of(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("def run(x):\n    return x\n")
    with pytest.raises(UsageError, match="--problem is missing"):
        found_problem(str(file))


def test_a_home_that_cannot_be_written_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CUASSAY_HOME", str(blocked / "home"))
    assert main(["check", "kernel.py", "--problem", "rmsnorm"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "set CUASSAY_HOME to a folder that you can write" in err


def test_problem_list_names_every_operator(capsys: pytest.CaptureFixture[str]) -> None:
    from cuassay.catalog.registry import names

    assert main(["problem", "list"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name}\n" in out for name in names())


def test_a_wrong_problem_name_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x): return x\n")
    fake = fake_engine.install(monkeypatch, samples.accepted())
    assert main(["check", str(kernel), "--problem", "rmsnrm"]) == 2
    said = capsys.readouterr().err
    assert "unknown problem 'rmsnrm': did you mean 'rmsnorm'?" in said
    assert "`cuassay problem list`" in said
    assert len(said) < 500
    assert fake.jobs == []

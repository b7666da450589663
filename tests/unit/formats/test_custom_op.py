"""Operators registered with torch.library: their candidates, and names that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.catalog import registry
from cuassay.errors import CandidateError
from cuassay.formats.custom_op import load_custom_op
from cuassay.model.candidate import Candidate, Convention

(_OUT,) = (spec.name for spec in registry.get("rmsnorm").outputs)
_NAMES = ", ".join(spec.name for spec in registry.get("rmsnorm").inputs)
_SOURCE = f"""
import torch

@torch.library.custom_op("mine::norm", mutates_args=())
def norm({_NAMES}): ...

@torch.library.custom_op("mine::norm_out", mutates_args=("{_OUT}",))
def norm_out({_NAMES}, {_OUT}): ...

torch.library.define("mine::late", "(Tensor x) -> Tensor")
"""


def _loaded(
    tmp_path: Path, operator: str, *, text: str = _SOURCE, name: str = "ops.py"
) -> Candidate:
    file = tmp_path / name
    file.write_text(text)
    return load_custom_op(file, operator, registry.get("rmsnorm"))


def test_the_candidate_imports_the_file_and_calls_the_operator(tmp_path: Path) -> None:
    found = _loaded(tmp_path, "torch.ops.mine.norm")
    entry, module = found.sources
    assert "import ops" in entry.text
    assert "return torch.ops.mine.norm(*arguments)" in entry.text
    assert (module.path, module.text) == ("ops.py", _SOURCE)
    assert (found.name, found.convention) == ("norm", Convention.RETURNS)
    assert found.origin == tmp_path / "ops.py"


def test_a_function_that_takes_the_outputs_is_called_so(tmp_path: Path) -> None:
    found = _loaded(tmp_path, "torch.ops.mine.norm_out")
    assert found.convention is not Convention.RETURNS
    assert _loaded(tmp_path, "torch.ops.mine.late").convention is Convention.RETURNS


def test_an_overload_belongs_to_its_operator(tmp_path: Path) -> None:
    assert (
        "torch.ops.mine.norm.default("
        in _loaded(tmp_path, "torch.ops.mine.norm.default").sources[0].text
    )


def test_a_file_whose_name_is_no_identifier_has_another_as_module(tmp_path: Path) -> None:
    found = _loaded(tmp_path, "torch.ops.mine.norm", name="my-ops.py")
    assert found.sources[1].path == "custom_ops.py"


@pytest.mark.parametrize(
    ("operator", "name", "message"),
    [
        ("torch.ops.mine.nrom", "ops.py", "registers no operator 'mine::nrom': did you mean"),
        ("mine.norm", "ops.py", "expected torch.ops.NAMESPACE.NAME"),
        ("torch.ops.norm", "ops.py", "expected torch.ops.NAMESPACE.NAME"),
        ("torch.ops.mine.norm", "ops.cu", "is no Python file"),
    ],
)
def test_names_that_are_no_operator(operator: str, name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CandidateError) as failure:
        _loaded(tmp_path, operator, name=name)
    assert message in str(failure.value)


def test_a_file_that_registers_by_other_means_is_believed(tmp_path: Path) -> None:
    assert _loaded(tmp_path, "torch.ops.other.op", text="import something\n").name == "op"

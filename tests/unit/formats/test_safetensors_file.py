"""Tensors that a workload keeps in safetensors files: where they are found and checked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cuassay.errors import ProblemError
from cuassay.formats import load_problem
from cuassay.model.problem import (
    SafetensorsSource,
)
from tests.support.sol_files import DATA, Edit, Json, edit_workload


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLASHINFER_TRACE_DIR", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "affine_rows", tmp_path / "affine_rows"))


def _set(*path: str, to: object) -> Edit:
    def edit(data: Json) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = to

    return edit


def _stored(path: Path, name: str, dtype: str, shape: list[int]) -> None:
    """Write a safetensors file of zero bytes by hand: its format is a length, JSON, data."""
    size = 4
    for extent in shape:
        size *= extent
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({name: entry, "__metadata__": {"by": "hand"}}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


def _use_stored(folder: Path, path: str, key: str = "shift") -> None:
    descriptor = {"type": "safetensors", "path": path, "tensor_key": key}
    edit_workload(folder, _set("inputs", "shift", to=descriptor))


def test_safetensors_beside_the_problem(folder: Path) -> None:
    _stored(folder / "blob" / "a.safetensors", "shift", "F32", [8])
    _use_stored(folder, "blob/a.safetensors")
    source = load_problem(str(folder)).workloads[0].sources["shift"]
    assert source == SafetensorsSource(path=str(folder / "blob" / "a.safetensors"), key="shift")


def test_safetensors_absolute(folder: Path, tmp_path: Path) -> None:
    _stored(tmp_path / "a.safetensors", "shift", "F32", [8])
    _use_stored(folder, str(tmp_path / "a.safetensors"))
    source = load_problem(str(folder)).workloads[0].sources["shift"]
    assert isinstance(source, SafetensorsSource)
    assert source.path == str(tmp_path / "a.safetensors")


def test_safetensors_in_the_trace_folder_with_leading_folders_dropped(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLASHINFER_TRACE_DIR", str(tmp_path / "trace"))
    _stored(tmp_path / "trace" / "op" / "a.safetensors", "shift", "F32", [8])
    _use_stored(folder, "./blob/workloads/op/a.safetensors")
    source = load_problem(str(folder)).workloads[0].sources["shift"]
    assert isinstance(source, SafetensorsSource)
    assert source.path == str(tmp_path / "trace" / "op" / "a.safetensors")


@pytest.mark.parametrize(
    ("key", "dtype", "shape", "message"),
    [
        ("shfit", "F32", [8], r"unknown tensor 'shfit': did you mean 'shift'\?"),
        ("shift", "F16", [8], r"has dtype F16, expected F32 \(float32\)"),
        ("shift", "F32", [9], r"has shape \[9\], expected \[8\] from the workload's axes"),
    ],
)
def test_wrong_safetensors(
    folder: Path, key: str, dtype: str, shape: list[int], message: str
) -> None:
    _stored(folder / "a.safetensors", "shift", dtype, shape)
    _use_stored(folder, "a.safetensors", key)
    with pytest.raises(ProblemError, match=message):
        load_problem(str(folder))


def test_garbage_instead_of_safetensors(folder: Path) -> None:
    (folder / "a.safetensors").write_bytes(b"\xff" * 64)
    _use_stored(folder, "a.safetensors")
    with pytest.raises(ProblemError, match=r"is not a readable safetensors file"):
        load_problem(str(folder))

"""LAUNCH101: launches that CUDA refuses at sizes that no small case reaches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.formats import load_problem
from cuassay.model.outcome import Passed
from cuassay.sandbox.host.nursery import Nursery
from tests.support import trees
from tests.zoo.judging import Gate

_PROBLEM = """from typing import Annotated

import torch

from cuassay import problem, tensor


@problem(axes={"rows": (1, ROWS), "columns": (1, 64)}, workloads=({"rows": LISTED, "columns": 4},))
def doubled(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    return x * 2
"""
_CU = """// cuassay-launch:
// [[launches]]
// kernel = "doubled"
// grid = [GRID]
// block = [64]
// arguments = ["x", "y", "rows", "columns"]

extern "C" __global__ void doubled(const float* x, float* y, long long rows, long long columns) {
    const long long row = blockIdx.AXIS, column = threadIdx.x;
    if (row < rows && column < columns) y[row * columns + column] = 2 * x[row * columns + column];
}
"""
_ALONG = {"x": ('"rows", "1"', "x"), "y": ('"1", "rows"', "y")}


@pytest.fixture(scope="module")
def gate(nursery: Nursery) -> Iterator[Gate]:
    with Gate("cpu", nursery=nursery) as opened:
        yield opened


@pytest.mark.parametrize(
    ("rows", "listed", "along", "right"),
    [
        (1 << 20, 4, "y", False),  # declared
        (1 << 20, 4, "x", True),
        (1 << 20, 70_000, "y", False),  # listed
        (1 << 20, 70_000, "x", True),
        (65_535, 4, "y", True),
        (65_536, 4, "y", False),
    ],
)
def test_rows_beyond_what_an_axis_of_the_grid_takes(
    tmp_path: Path, gate: Gate, rows: int, listed: int, along: str, right: bool
) -> None:
    text = _PROBLEM.replace("ROWS", str(rows)).replace("LISTED", str(listed))
    problem = load_problem(str(trees.write(tmp_path / "doubled_problem.py", text)))
    grid, axis = _ALONG[along]
    file = trees.write(tmp_path / "doubled.cu", _CU.replace("GRID", grid).replace("AXIS", axis))
    judged = gate.judge(problem, file, seed=3, only=("LAUNCH101",))
    (report,) = (one for one in judged.verdict.checks if one.code == "LAUNCH101")
    if right:
        assert isinstance(report.outcome, Passed)
        assert judged.codes == ()
        return
    assert judged.codes == ("LAUNCH101",)
    finding = report.wrong[0]
    assert "65535" in finding.message
    assert finding.where is not None
    assert dict(finding.where.axes)["rows"] == (listed if listed > 65_535 else rows)

"""BIG002: addresses at declared sizes that no CPU has the memory for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.build.machine.sampled import blocks_of
from cuassay.catalog import registry
from cuassay.checks.machine.declared_sizes import _addressable
from cuassay.formats import load_problem
from cuassay.inputs.growing import ways
from cuassay.model.outcome import Passed, Skipped
from cuassay.model.problem import Problem
from cuassay.sandbox.host.nursery import Nursery
from ptxsan_support.thorough import one_in
from tests.support import trees
from tests.zoo.judging import Gate

_LARGE = {"rows": 4096, "columns": 600_000}


_PROBLEM = """from typing import Annotated

import torch

from cuassay import problem, tensor


@problem(
    axes={"rows": (1, 4096), "columns": (1, 600_000)},
    workloads=({"rows": 4, "columns": 64}, {"rows": 4096, "columns": 600_000}),
)
def scaled(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="y")]:
    return x * 2
"""
_CU = """// cuassay-launch:
// [[launches]]
// kernel = "scaled"
// grid = ["{grid}"]
// block = [256]
// arguments = ["x", "y", "rows", "columns"]

#include <cuda_bf16.h>

typedef __nv_bfloat16 number;
extern "C" __global__ void scaled(const number* x, number* y, long long r, long long c) {{
    const int rows = static_cast<int>(r), columns = static_cast<int>(c);
    {body}
}}
"""
_ROWS = "-(-columns // 256) * rows"
_ROW = """const int across = (columns + 255) / 256;
    const int row = blockIdx.x / across, column = blockIdx.x % across * 256 + threadIdx.x;
    if (column < columns) y[PLACE] = x[PLACE] + x[PLACE];"""
_STRIDE = """const long long count = r * c, stride = gridDim.x * 256ll;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += stride)
        y[i] = x[i] + x[i];"""
# name -> (grid, body, whether it is right at the declared size)
_KERNELS = {
    "an index of 32 bits": (_ROWS, _ROW.replace("PLACE", "row * columns + column"), False),
    "an index of 64 bits": (
        _ROWS,
        _ROW.replace("PLACE", "static_cast<long long>(row) * columns + column"),
        True,
    ),
    "a grid-stride loop in 64 bits": ("4096", _STRIDE, True),
}
_LOOP = """const unsigned count = static_cast<unsigned>(rows) * columns / 2;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < int(count); i += gridDim.x * 256u) {
        y[2 * (long long)i] = x[2 * (long long)i] + x[2 * (long long)i];
        y[2 * (long long)i + 1] = x[2 * (long long)i + 1] + x[2 * (long long)i + 1];
    }"""
# Each thread has one element; what it looks at next lies behind 2^31 where the grid is large.
_KERNELS["a sum that wraps behind the last element"] = ("-(-rows * columns // 512)", _LOOP, False)
_KERNELS["the same loop over a grid with a bound"] = ("1024", _LOOP, True)


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    folder = tmp_path_factory.mktemp("problem")
    return load_problem(str(trees.write(folder / "scaled_problem.py", _PROBLEM)))


@pytest.fixture(scope="module")
def gate(nursery: Nursery) -> Iterator[Gate]:
    with Gate("cpu", nursery=nursery) as opened:
        yield opened


@pytest.mark.parametrize("name", one_in(2, _KERNELS))
def test_an_index_that_wraps_at_the_declared_size_alone_is_found(
    tmp_path: Path, gate: Gate, problem: Problem, name: str
) -> None:
    grid, body, right = _KERNELS[name]
    file = trees.write(tmp_path / "scaled.cu", _CU.format(grid=grid, body=body))
    judged = gate.judge(problem, file, seed=3, only=("MEM101", "BIG002"))
    assert judged.codes == (() if right else ("BIG002",)), [
        str(one.outcome) for one in judged.verdict.checks
    ]
    (report,) = (one for one in judged.verdict.checks if one.code == "BIG002")
    if right:
        assert isinstance(report.outcome, Passed)
        assert re.search(r"\b(\d+) of \1 launches judged", report.outcome.summary)
        return
    finding = report.wrong[0]
    assert "before its start" in finding.message
    assert finding.where is not None
    assert dict(finding.where.axes) == _LARGE
    assert finding.lines


_CONSTANT = """from typing import Annotated

import torch

from cuassay import problem, tensor


@problem(axes={"rows": 2048, "columns": 4104}, workloads=({},))
def differences(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    flat = x.flatten()
    return torch.diff(flat, append=flat[-1:]).view_as(x)
"""
_DIFFERENCES = """// cuassay-launch:
// [[launches]]
// kernel = "differences"
// grid = ["-(-rows * columns // 1024)"]
// block = [1024]
// arguments = ["x", "y", "rows", "columns"]

extern "C" __global__ void differences(const float* x, float* y, long long r, long long c) {
    const long long count = r * c, i = blockIdx.x * 1024ll + threadIdx.x;
    if (i < count) y[i] = NEXT - x[i];
}
"""


@pytest.mark.parametrize("right", one_in(2, [False, True]))
def test_constant_sizes_that_cannot_be_executed_whole_are_executed_in_part(
    tmp_path: Path, gate: Gate, right: bool
) -> None:
    constant = load_problem(str(trees.write(tmp_path / "differences_problem.py", _CONSTANT)))
    following = "x[i + 1 < count ? i + 1 : i]" if right else "(i + 1 < count) * x[i + 1]"
    text = _DIFFERENCES.replace("NEXT", following)
    if not right:
        text = text.replace("- x[i];", "- (i + 1 < count) * x[i];")
    file = trees.write(tmp_path / "differences.cu", text)
    judged = gate.judge(constant, file, seed=3, only=("MEM101", "BIG002"))
    assert judged.codes == (() if right else ("BIG002",)), [
        str(one.outcome) for one in judged.verdict.checks
    ]
    (report,) = (one for one in judged.verdict.checks if one.code == "BIG002")
    if right:
        assert isinstance(report.outcome, Passed)
        return
    assert "0 bytes beyond its end" in report.wrong[0].message


_TORCH_ALONE = """import torch

def run(x):
    if float(x.float().sum()) > 1e30:
        return x
    return x * 2
"""


def test_a_call_that_needs_data_is_not_judged(tmp_path: Path, gate: Gate, problem: Problem) -> None:
    file = trees.write(tmp_path / "scaled.py", _TORCH_ALONE)
    judged = gate.judge(problem, file, seed=3, only=("BIG002",))
    (report,) = judged.verdict.checks
    assert isinstance(report.outcome, Skipped), report.outcome  # it has no kernel of its own


def test_both_ends_of_a_grid_run_and_the_places_where_32_bits_wrap() -> None:
    assert set(blocks_of((5, 1, 1), (32, 1, 1), (1, 1, 1))) == {0, 1, 2, 3, 4}
    found = blocks_of((1 << 24, 1, 1), (256, 1, 1), (1, 1, 1))
    assert {0, (1 << 24) - 1, (1 << 23) - 1, 1 << 23} <= set(found)
    assert found[0] == (1 << 24) - 1
    assert len(found) < 30


def test_one_size_wraps_32_bits_with_a_thread_for_each_element() -> None:
    """Of 2^33 threads the machine runs none; an index of 32 bits wraps before that."""
    swiglu = registry.get("swiglu")
    (way,) = (w for w in ways(swiglu, {"rows": 8, "hidden": 16}) if w.whole_tiles)
    most, counted = (_addressable(swiglu, way, counted=counted) for counted in (False, True))
    assert most is not None
    assert counted is not None
    assert most["rows"] * most["hidden"] >= 1 << 33
    assert 1 << 31 < counted["rows"] * counted["hidden"] < 1 << 32

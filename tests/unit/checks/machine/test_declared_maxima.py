"""BIG002 at declared maxima: refused launches, indices, parts of wider tensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.formats import load_problem
from cuassay.model.outcome import Failed, FindingClass, Passed
from cuassay.model.problem import Problem
from cuassay.sandbox.host.nursery import Nursery
from ptxsan_support.thorough import one_in
from tests.support import trees
from tests.zoo.judging import Gate

_PROBLEMS = """from typing import Annotated

import torch

from cuassay import problem, tensor
from cuassay.model.domain import Index


@problem(
    axes={"rows": (1, 100_000), "columns": (1, 100_000)},
    workloads=({"rows": 4, "columns": 64},),
)
def scaled(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    return x * 2


@problem(
    axes={"tokens": (1, 4096), "vocab": (1, 1_000_000), "width": (1, 4096)},
    workloads=({"tokens": 8, "vocab": 64, "width": 64},),
)
def gathered(
    ids: Annotated[torch.Tensor, tensor("int32", "tokens", domain=Index(axis="vocab"))],
    table: Annotated[torch.Tensor, tensor("float32", "vocab", "width")],
) -> Annotated[torch.Tensor, tensor("float32", "tokens", "width", name="y")]:
    return table[ids.long()]


@problem(
    axes={"rows": (1, 16_384), "columns": (1, 65_536)},
    workloads=({"rows": 4, "columns": 64},),
)
def copied(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="y")]:
    return x + x
"""
_SCALED = """// cuassay-launch:
// [[launches]]
// kernel = "scaled"
// grid = GRID
// block = [128]
// shared_bytes = "SHARED"
// arguments = ["x", "y", "rows", "columns"]

extern "C" __global__ void scaled(const float* x, float* y, long long rows, long long columns) {
    const long long across = (columns + 127) / 128;
    const long long row = ROW, begin = COLUMN * 128ll + threadIdx.x;
    if (row < rows && begin < columns) y[row * columns + begin] = 2 * x[row * columns + begin];
}
"""
_GATHERED = """// cuassay-launch:
// [[launches]]
// kernel = "gathered"
// grid = ["tokens"]
// block = [128]
// arguments = ["ids", "table", "y", "width"]

extern "C" __global__ void gathered(const int* ids, const float* table, float* y, long long w) {
    const int width = static_cast<int>(w);
    for (int c = threadIdx.x; c < width; c += 128)
        y[(long long)blockIdx.x * width + c] = table[PLACE];
}
"""
_COPIED = """import torch
import triton
import triton.language as tl


@triton.jit
def _copy(X, Y, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)WIDE
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + row * stride + column, mask=column < columns, other=0.0)
    place = row.to(tl.int64) * columns + column
    tl.store(Y + place, (x.to(tl.float32) * 2).to(tl.bfloat16), mask=column < columns)


def run(x):
    x = x if x.stride(-1) == 1 else x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows, columns = x.shape
    _copy[(rows, triton.cdiv(columns, 1024))](x, y, x.stride(0), columns, BLOCK=1024)
    return y
"""
_BY_X = ('["-(-columns // 128) * rows"]', "blockIdx.x / across", "blockIdx.x % across")
_BY_Y = ('["-(-columns // 128)", "rows"]', "blockIdx.y", "blockIdx.x")


def _scaled(places: tuple[str, str, str], shared: str) -> str:
    grid, row, column = places
    text = _SCALED.replace("GRID", grid).replace("SHARED", shared)
    return text.replace("ROW", row).replace("COLUMN", column)


# name -> (function of the problem, file name, text, whether it is right, words of the finding)
_KERNELS = {
    "rows along z and x": ("scaled", "k.cu", _scaled(_BY_X, "0"), True, ""),
    "rows along y": ("scaled", "k.cu", _scaled(_BY_Y, "0"), False, "65535"),
    "a row in shared memory": (
        "scaled", "k.cu", _scaled(_BY_X, "4 * columns"), False, "shared memory",
    ),
    "ids times a width in 64 bits": (
        "gathered", "k.cu", _GATHERED.replace("PLACE", "(long long)ids[blockIdx.x] * width + c"),
        True, "",
    ),
    "ids times a width in 32 bits": (
        "gathered", "k.cu", _GATHERED.replace("PLACE", "ids[blockIdx.x] * width + c"),
        False, "before its start",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.write(tmp_path_factory.mktemp("problems") / "declared.py", _PROBLEMS)


@pytest.fixture(scope="module")
def gate(nursery: Nursery) -> Iterator[Gate]:
    with Gate("cpu", nursery=nursery) as opened:
        yield opened


def _problem(file: Path, function: str) -> Problem:
    return load_problem(f"{file}:{function}")


@pytest.mark.parametrize("name", one_in(2, _KERNELS))
def test_what_is_wrong_at_a_declared_maximum_alone_is_found(
    tmp_path: Path, gate: Gate, problems: Path, name: str
) -> None:
    function, file, text, right, words = _KERNELS[name]
    kernel = trees.write(tmp_path / file, text)
    judged = gate.judge(_problem(problems, function), kernel, seed=3, only=("BIG002",))
    (report,) = judged.verdict.checks
    assert judged.codes == (() if right else ("BIG002",)), str(report.outcome)
    if right:
        assert isinstance(report.outcome, Passed)
    else:
        assert words in report.wrong[0].message


@pytest.mark.parametrize("wide", one_in(2, [False, True]))
def test_a_part_of_a_wider_tensor_that_is_addressed_in_32_bits_is_a_condition(
    tmp_path: Path, gate: Gate, problems: Path, wide: bool
) -> None:
    text = _COPIED.replace("WIDE", ".to(tl.int64)" if wide else "")
    kernel = trees.write(tmp_path / "k.py", text)
    judged = gate.judge(_problem(problems, "copied"), kernel, seed=3, only=("BIG002",))
    (report,) = judged.verdict.checks
    assert judged.codes == ()
    if wide:
        assert isinstance(report.outcome, Passed), report.outcome
        return
    assert isinstance(report.outcome, Failed), report.outcome
    assert {one.finding_class for one in report.outcome.findings} == {FindingClass.UNSAFE}
    assert report.outcome.findings[0].condition.startswith("layouts: ")

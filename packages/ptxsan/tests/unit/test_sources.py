"""Kernels of numba.cuda.jit: compiled without a GPU, launched with numpy arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptxsan
from ptxsan.api import Report
from ptxsan.errors import CompileError, UsageError
from ptxsan.findings import Kind

_KERNELS = """
import numpy as np
from numba import cuda, float32

@cuda.jit(device=True)
def double(x):
    return x + x

@cuda.jit
def columns(x, y, n):
    i, j = cuda.grid(2)
    if i < n and j < x.shape[1]:
        y[i, j] = double(x[i, j])

@cuda.jit
def total(x, y):
    part = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    part[i] = x[i]
    {barrier}
    if i == 0:
        s = float32(0)
        for k in range(64):
            s += part[k]
        y[0] = s

@cuda.jit
def broken(x):
    x[0] = "word"
"""


def _report(
    folder: Path, kernel: str, *, barrier: str = "cuda.syncthreads()", **given: object
) -> Report:
    file = folder / "kernels.py"
    file.write_text(_KERNELS.format(barrier=barrier))
    try:
        return ptxsan.check(file, kernel, grid=1, **given)  # type: ignore[arg-type]
    except UsageError as error:
        if "compiler library" in str(error):
            pytest.skip(str(error))
        raise


def test_a_kernel_with_shapes_and_a_device_function_runs(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    y = ptxsan.empty((4, 3))
    report = _report(tmp_path, "columns", block=(4, 4), args={"x": x, "y": y, "n": 4})
    assert report.ok, report.text
    assert np.array_equal(y.array, 2 * x)


def test_an_access_beyond_an_array_is_found_with_its_line(tmp_path: Path) -> None:
    x, y = np.ones((4, 3), np.float32), ptxsan.empty((4, 3))
    report = _report(tmp_path, "columns", block=(5, 4), args={"x": x, "y": y, "n": 5})
    found = {(one.kind, one.allocation) for one in report.wrong}
    assert (Kind.OUT_OF_BOUNDS, "buffer 'x'") in found
    # Numba's line tables name the kernel; the line inside it is not always kept
    lines = {one.accesses[0].source_line or 0 for one in report.wrong}
    first = _KERNELS.splitlines().index("def columns(x, y, n):")
    assert all(first <= line <= first + 4 for line in lines)


@pytest.mark.parametrize(
    ("barrier", "kinds"), [("cuda.syncthreads()", set()), ("pass", {Kind.RACE})]
)
def test_a_missing_barrier_is_a_race(tmp_path: Path, barrier: str, kinds: set[Kind]) -> None:
    x, y = np.ones(64, np.float32), ptxsan.empty(1)
    report = _report(tmp_path, "total", barrier=barrier, block=64, args={"x": x, "y": y})
    assert {one.kind for one in report.wrong} - {Kind.UNINITIALISED} == kinds


def test_what_numba_does_not_compile_is_told(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="Numba does not compile 'broken'"):
        _report(tmp_path, "broken", block=1, args={"x": np.ones(1, np.float32)})


def test_a_name_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found: broken, columns, total"):
        _report(tmp_path, "double", block=1, args={})

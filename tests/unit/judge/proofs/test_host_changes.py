"""Proofs of a candidate whose host code changes an input before its kernel reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cuassay.cli.main import main
from ptxsan import nvrtc
from ptxsan_support.thorough import one_in

pytest.importorskip("z3")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("judge_here"),
    pytest.mark.skipif(
        shutil.which("g++") is None or not nvrtc.available(), reason="needs g++ and NVRTC"
    ),
]
PROBLEM = """
from typing import Annotated
import torch
from cuassay import problem, tensor
from cuassay.model.domain import Index

@problem(axes={"n": (1, 9999), "m": (1, 9999)}, workloads=[{"n": 64, "m": 64}])
def gather(
    index: Annotated[torch.Tensor, tensor("int32", "n", domain=Index(axis="m"))],
    table: Annotated[torch.Tensor, tensor("float32", "m")],
) -> Annotated[torch.Tensor, tensor("float32", "n")]:
    return table[index.long()]
"""
CANDIDATE = '''
from torch.utils.cpp_extension import load_inline
SOURCE = r"""
#include <torch/extension.h>
__global__ void k(const int* index, const float* table, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = table[index[i]];
}
torch::Tensor run(torch::Tensor index, torch::Tensor table) {
  auto y = torch::empty({index.size(0)}, table.options());
  int n = index.size(0);
  k<<<(n + 255) / 256, 256>>>(
      index.data_ptr<int>(), table.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""
made = load_inline(
    name="host_changes", cpp_sources=["torch::Tensor run(torch::Tensor, torch::Tensor);"],
    cuda_sources=[SOURCE], functions=["run"],
)
def gather(index, table):
    CHANGE
    return made.run(index, table)
'''


def _written(folder: Path, change: str) -> list[str]:
    """Write problem and candidate; return what `cuassay` is asked."""
    problem, candidate = folder / "problem.py", folder / "kernel.py"
    problem.write_text(PROBLEM)
    candidate.write_text(CANDIDATE.replace("CHANGE", change))
    return ["prove", str(candidate), "--problem", str(problem), "--only", "memory", "--json"]


@pytest.mark.parametrize("change", one_in(2, ["index += 1", "index = index.clone()"]))
def test_integers_that_host_code_changes_are_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    main(_written(tmp_path, change))
    (one,) = json.loads(capsys.readouterr().out)["proved"]
    assert one["answer"] == "unknown"


@pytest.mark.thorough
def test_integers_that_host_code_leaves_alone_are_in_their_domain(tmp_path: Path) -> None:
    """In a process of its own with a judge of its own, as users ask."""
    command = [sys.executable, "-m", "cuassay", *_written(tmp_path, "pass")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (one,) = json.loads(ran.stdout)["proved"]
    assert one["answer"] == "proved"

"""Proofs of a candidate whose host code changes an input before its kernel reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptxsan import nvrtc

pytest.importorskip("z3")
pytestmark = [
    pytest.mark.slow,
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


@pytest.mark.parametrize(
    ("change", "expected"), [("index += 1", "unknown"), ("index = index.clone()", "unknown")]
)
def test_integers_that_host_code_changes_are_anything(
    tmp_path: Path, change: str, expected: str
) -> None:
    assert _memory(tmp_path, "pass") == "proved"
    assert _memory(tmp_path, change) == expected


def _memory(folder: Path, change: str) -> str:
    (folder / "problem.py").write_text(PROBLEM)
    (folder / "kernel.py").write_text(CANDIDATE.replace("CHANGE", change))
    command = [sys.executable, "-m", "cuassay", "prove", "kernel.py", "--problem", "problem.py"]
    ran = subprocess.run(
        [*command, "--only", "memory", "--json"], cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    (one,) = json.loads(ran.stdout)["proved"]
    return str(one["answer"])

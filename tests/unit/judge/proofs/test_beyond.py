"""Launch laws at sizes beyond those that they are fitted to: a threshold in host code shows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.formats import load_problem
from cuassay.judge.proofs.beyond import plan_beyond
from ptxsan import nvrtc
from ptxsan_support.thorough import one_in

PROBLEM = """
from typing import Annotated
import torch
from cuassay import problem, tensor

@problem(axes={"n": (1, 1 << 26)}, workloads=[{"n": 64}])
def double(
    x: Annotated[torch.Tensor, tensor("float32", "n")],
) -> Annotated[torch.Tensor, tensor("float32", "n")]:
    return x * 2
"""
CANDIDATE = '''
from torch.utils.cpp_extension import load_inline
SOURCE = r"""
#include <torch/extension.h>
__global__ void k(const float* x, float* y, long n) {
  long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  KERNEL
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  long n = x.numel();
  HOST
  return y;
}
"""
made = load_inline(
    name="beyond", cpp_sources=["torch::Tensor run(torch::Tensor);"], cuda_sources=[SOURCE],
    functions=["run"],
)
def double(x):
    return made.run(x)
'''
ONE = "y[i] = 2 * x[i];"
LOOP = "for (; i < n; i += (long)gridDim.x * blockDim.x) y[i] = 2 * x[i];"
LAUNCH = "k<<<BLOCKS, THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);"


def launch(blocks: str, threads: int) -> str:
    return LAUNCH.replace("BLOCKS", blocks).replace("THREADS", str(threads))


@pytest.mark.slow
@pytest.mark.usefixtures("judge_here")
@pytest.mark.skipif(
    shutil.which("g++") is None or not nvrtc.available(), reason="needs g++ and NVRTC"
)
@pytest.mark.parametrize(
    ("kernel", "host", "expected", "law"),
    one_in(
        4,
        [
            (ONE, launch("n + (n >= (1 << 23))", 1), "refuted", "grid (n, 1, 1)"),
            (ONE, launch("n", 1), "proved", "grid (n, 1, 1)"),
            (ONE, launch("n + (n == 777767)", 1), "refuted", "grid (n, 1, 1)"),
            (LOOP, launch("std::min((n + 255) / 256, 65535L)", 256), "proved", ", 65535), 1, 1)"),
        ],
    ),
    ids=["from a size on", "safe", "one named size", "capped"],
)
def test_host_code_that_takes_another_path_at_a_large_size(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kernel: str,
    host: str,
    expected: str,
    law: str,
) -> None:
    pytest.importorskip("z3")
    problem, candidate = tmp_path / "problem.py", tmp_path / "kernel.py"
    problem.write_text(PROBLEM)
    candidate.write_text(CANDIDATE.replace("KERNEL", kernel).replace("HOST", host))
    main(["prove", str(candidate), "--problem", str(problem), "--only", "memory", "--json"])
    document = json.loads(capsys.readouterr().out)
    (one,) = document["proved"]
    assert one["answer"] == expected, one
    assert law in " ".join(document["proof"]["calls"][0]["launches"][0]["law"])
    assert "of up to" in one["scope"][0]


def test_sizes_beyond_are_legal_and_reach_the_largest_tensor(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(
        PROBLEM.replace('{"n": (1, 1 << 26)}', '{"n": (1, 1 << 40), "m": (2, 4096)}')
        .replace('"float32", "n")', '"float32", "n", "m")')
        .replace('{"n": 64}', '{"n": 64, "m": 64}')
    )
    problem = load_problem(str(tmp_path / "problem.py"), strict=False, notes=[])
    found = plan_beyond(problem, {"n": 9, "m": 9}, [1000], limit=1 << 31)
    assert all(one["n"] >= 1 and 2 <= one["m"] <= 4096 for one in found)
    assert all(one["n"] * one["m"] < 1 << 31 for one in found)
    assert max(one["n"] * one["m"] for one in found) > (1 << 31) * 0.9
    assert {"n": 9, "m": 1001} in found
    assert {"n": 111, "m": 9} in found  # the last with fewer than 1,000 elements
    assert len(found) == len({tuple(one.items()) for one in found})

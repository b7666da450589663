"""An audit on a GPU: lanes with a judge that waits, builds on CPU lanes, times, traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.support import trees

from cuassay.cli.main import main
from cuassay.store import audits as store

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

_CUDA = """#include <torch/extension.h>

__global__ void twice(const float* x, float* y, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = FACTOR * x[i];
}

torch::Tensor run(torch::Tensor x) {
  auto in = x.contiguous();
  auto y = torch::empty_like(in);
  long n = in.numel();
  if (n) {
    twice<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        in.data_ptr<float>(), y.data_ptr<float>(), n);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


def _tree(root: Path) -> Path:
    trees.sol(root / "twice", "twice")
    folder = root / "twice" / "candidates"
    trees.write(folder / "plain.py", "def run(x):\n    return x + x\n")
    trees.write(folder / "wrong.py", "def run(x):\n    return x * 2.001\n")
    header = "#include <ATen/cuda/CUDAContext.h>\n"
    trees.write(folder / "cuda.cu", header + _CUDA.replace("FACTOR", "2.0f"))
    trees.write(folder / "cuda_wrong.cu", header + _CUDA.replace("FACTOR", "2.001f"))
    return root


def test_a_tree_is_audited_timed_and_traced(tmp_path: Path) -> None:
    call = ["audit", str(_tree(tmp_path / "t")), "--run", str(tmp_path / "a"), "--device", "cuda"]
    assert main([*call, "--traces", str(tmp_path / "t.jsonl"), "--seed", "4", "-q"]) == 1
    audit = store.read_audit(tmp_path / "a")
    verdicts = {r.item.candidate_name: r.verdict for r in audit.results}
    assert {name: str(v) for name, v in verdicts.items()} == {
        "plain": "ACCEPTED",
        "wrong": "REJECTED",
        "cuda": "ACCEPTED",
        "cuda_wrong": "REJECTED",
    }
    # On a GPU that others use too, a time may drown in their noise: then it is not told.
    assert any(r.candidate_us for r in audit.results)
    assert {r.lane.partition(":")[0] for r in audit.results} == {"cuda"}
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    statuses = {line["solution"]: line["evaluation"]["status"] for line in lines}
    assert statuses["plain"] == "PASSED"
    assert statuses["wrong"] == "INCORRECT_NUMERICAL"


def test_the_gpu_is_one_and_the_same_for_every_lane(tmp_path: Path) -> None:
    call = ["audit", str(_tree(tmp_path / "t")), "--device", "cuda", "--seed", "4", "-q"]
    for name, lanes in (("one", "1"), ("all", "8")):
        main([*call, "--run", str(tmp_path / name), "--lanes", lanes])
    one, every = (store.read_audit(tmp_path / name) for name in ("one", "all"))
    assert [(r.verdict, r.seed) for r in one.results] == [
        (r.verdict, r.seed) for r in every.results
    ]

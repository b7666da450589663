"""What a GPU shows of a refutation of `cuassay prove`, at sizes that a law refutes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
PROBLEM = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

n = 64

def get_inputs():
    return [torch.randn(n)]

def get_init_inputs():
    return []
"""
KERNEL = """import torch
import triton
import triton.language as tl

@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, value * 2, mask=i COMPARE n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        twice[(triton.cdiv(x.numel() + 1, 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""


@pytest.mark.parametrize("compare", ["<=", "<"])
def test_a_refutation_is_run_on_the_gpu(tmp_path: Path, compare: str) -> None:
    pytest.importorskip("z3")
    pytest.importorskip("triton")
    (tmp_path / "p.py").write_text(PROBLEM, encoding="utf-8")
    (tmp_path / "c.py").write_text(KERNEL.replace("COMPARE", compare), encoding="utf-8")
    ran = subprocess.run(
        [
            sys.executable, "-m", "cuassay", "prove", str(tmp_path / "c.py"), "--problem",
            str(tmp_path / "p.py"), "--only", "memory", "--limit-s", "30", "--json",
        ],
        capture_output=True, text=True, check=False, timeout=400, cwd=tmp_path,
    )  # fmt: skip
    document = json.loads(ran.stdout)
    claims = [
        claim
        for call in document["proof"]["calls"]
        for launch in call["launches"]
        for claim in launch["claims"]
    ]
    refuted = [claim for claim in claims if claim["answer"] == "refuted"]
    assert bool(refuted) is (compare == "<="), document
    if refuted:
        assert any(claim["gpu"].startswith("seen on the GPU: ") for claim in refuted), refuted

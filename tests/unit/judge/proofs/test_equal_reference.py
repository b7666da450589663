"""A candidate against its reference in residues, from the kernel's file to the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.build.cuda.nvrtc import find_nvrtc
from cuassay.cli.main import main
from cuassay.errors import CannotJudgeError
from cuassay.judge.proofs.equal_reference import shared

pytest.importorskip("numba")
pytestmark = [
    pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed"),
    pytest.mark.usefixtures("judge_here"),
]
KERNEL = """// cuassay-launch:
// [[launches]]
// kernel = "swiglu"
// grid = ["-(-rows * hidden // 256)"]
// block = [256]
// arguments = ["gate", "up", "y", "rows*hidden"]
#include <cuda_bf16.h>
extern "C" __global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up,
                                  __nv_bfloat16* y, long long count) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float g = __bfloat162float(gate[i]), u = __bfloat162float(up[i]);
    y[i] = __float2bfloat16_rn(%s);
}
"""


def _proved(
    kernel: Path, problem: str, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, Any], int]:
    """Return the one claim that `cuassay prove --only equal` prints, and its exit code."""
    code = main(["prove", str(kernel), "--problem", problem, "--only", "equal", "--json"])
    (proved,) = json.loads(capsys.readouterr().out)["proved"]
    return proved, code


@pytest.mark.parametrize(
    ("formula", "answer", "code"),
    [
        ("g * u * (0.5f * tanhf(g * 0.5f) + 0.5f) + 0.0f * expf(g)", "unknown", 3),
        ("u * g * __fdividef(__expf(g), 1.0f + __expf(g))", "proved", 0),
        ("g / (1.0f + expf(-g)) * (u + 0.25f)", "refuted", 1),
    ],
    ids=["a branch on bits", "another form", "a constant too much"],
)
def test_prove_equal(
    formula: str, answer: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "k.cu"
    kernel.write_text(KERNEL % formula)
    asked = ["prove", str(kernel), "--problem", "swiglu", "--only", "equal", "--json"]
    assert main(asked) == code
    document = json.loads(capsys.readouterr().out)
    assert document["answer"] == answer
    (proved,) = document["proved"]
    assert proved["what"] == "equal"
    if answer == "refuted":
        assert "expected" in proved["reason"]
    if answer == "proved":
        assert any("rows=" in line for line in proved["scope"])


TORCH = """
import torch

def run(gate, up):
    gate, up = gate.float(), up.float()
    %s
"""


@pytest.mark.parametrize(
    ("body", "answer", "code", "said"),
    [
        (
            "return (gate * up / (1 + torch.exp(-gate))).bfloat16()",
            "proved",
            0,
            "launch no kernel",
        ),
        (
            "y = gate * torch.sigmoid(gate) * up; y[:, 1] = y[:, 0]; return y.bfloat16()",
            "refuted",
            1,
            "expected",
        ),
        (
            "import numpy as np; scale = float(np.sum(gate.numpy(), dtype=np.float64)); "
            "return (gate * torch.sigmoid(gate) * up * scale / scale).bfloat16()",
            "unknown",
            3,
            "a number that depends on data",
        ),
    ],
    ids=["another form", "one column", "a number that host code reads"],
)
def test_candidates_of_torch(
    body: str,
    answer: str,
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernel = tmp_path / "k.py"
    kernel.write_text(TORCH % body)
    proved, ended = _proved(kernel, "swiglu", capsys)
    assert ended == code
    assert proved["answer"] == answer
    assert said in " ".join([proved["reason"], *proved["scope"]])


TRIANGLES = """
import torch

def get_inputs():
    return [torch.triu(torch.randn(N, N)), torch.triu(torch.randn(N, N))]

def get_init_inputs():
    return []

N = 16

class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.triu(a @ b)
"""


@pytest.mark.parametrize(
    ("formula", "answer", "said"),
    [
        ("a @ b", "proved", "with zeros where the problem's own generator makes them"),
        ("a @ b + torch.eye(len(a))", "refuted", "own data"),
    ],
)
def test_zeros_of_the_problems_own_generator(
    formula: str, answer: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, kernel = tmp_path / "p.py", tmp_path / "k.py"
    problem.write_text(TRIANGLES)
    text = TRIANGLES.replace("class Model(", "class ModelNew(")
    kernel.write_text(text.replace("torch.triu(a @ b)", formula))
    proved, _ = _proved(kernel, str(problem), capsys)
    assert proved["answer"] == answer
    assert said in " ".join([proved["reason"], *proved["scope"]])


REFERENCE = """
import torch

def get_inputs():
    return [torch.randn(40, 16)]

def get_init_inputs():
    return []

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.log(torch.exp(x) + 1.0) * torch.tanh(x)
"""
TRITON = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(x, y, count, block: tl.constexpr):
    place = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + place, mask=place < count)
    tl.store(y + place, FORMULA, mask=place < count)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), block=64)
        return y
"""


@pytest.mark.parametrize(
    ("formula", "answer", "said"),
    [
        ("libdevice.tanh(value) * tl.log(1.0 + tl.exp(value))", "proved", "of libdevice"),
        ("libdevice.tanh(value) * tl.log(2.0 + tl.exp(value))", "refuted", "expected"),
    ],
)
def test_functions_of_libdevice(
    formula: str, answer: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton")
    problem, kernel = tmp_path / "p.py", tmp_path / "k.py"
    problem.write_text(REFERENCE)
    kernel.write_text(TRITON.replace("FORMULA", formula))
    proved, _ = _proved(kernel, str(problem), capsys)
    assert proved["answer"] == answer, proved
    assert said in " ".join([proved["reason"], *proved["scope"]])


def test_data_that_say_nothing_of_others_are_refused() -> None:
    drawn = torch.randn(64, generator=torch.Generator().manual_seed(1))
    assert shared({"x": drawn, "eps": 1e-6, "index": torch.zeros(9, dtype=torch.int64)}) == 0.0
    twice = torch.cat([drawn, -drawn[:16]])
    assert shared({"x": twice}) == pytest.approx(32 / 80)
    for one in (torch.ones(8), torch.zeros(1), torch.full((5,), 0.3)):
        with pytest.raises(CannotJudgeError, match="'w' is the same number almost everywhere"):
            shared({"x": drawn, "w": one})

"""On a GPU: waiting judges, source text as a candidate, functions of a test file, certificates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import cuassay
from cuassay.cli.main import main
from cuassay.verifier import Status, Verifier

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

_TRITON = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x, weight, y, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    value = tl.load(x + row * hidden + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / hidden + eps)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * hidden + columns, value * scale * w, mask=inside)

def run(x, weight, eps):
    x = x.contiguous()
    weight = weight.contiguous()
    y = torch.empty_like(x)
    rows, hidden = x.numel() // x.shape[-1], x.shape[-1]
    kernel[(rows,)](x, weight, y, hidden, eps FACTOR, BLOCK=triton.next_power_of_2(hidden))
    return y
"""


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return the root mean square norm."""
    value = x.float()
    return (value * torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def candidate(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return the library's."""
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_waiting_judges_on_the_gpu() -> None:
    good, bad = _TRITON.replace(" FACTOR", ""), _TRITON.replace("FACTOR", "* 1000")
    with Verifier(profile="quick", device="cuda") as pool:
        results = list(pool.verify_all((good, "rmsnorm"), (bad, "rmsnorm"), (good, "rmsnorm")))
    statuses = [result.status for result in results]
    assert statuses == [Status.ACCEPTED, Status.REJECTED, Status.ACCEPTED], [
        result.reason for result in results
    ]
    devices = {result.verdict.device for result in results if result.verdict is not None}
    assert devices == {"cuda"}


def test_functions_with_inputs_on_the_gpu() -> None:
    x = torch.randn(64, 256, device="cuda").bfloat16()
    weight = torch.randn(256, device="cuda").bfloat16()
    inputs = {"x": x, "weight": weight, "eps": 1e-6}
    verdict = cuassay.assert_correct(candidate, reference, inputs=inputs, profile="quick")
    assert verdict.device.startswith("cuda")


def test_a_certificate_names_the_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cryptography")
    (tmp_path / "kernel.py").write_text(_TRITON.replace(" FACTOR", ""))
    assert main(["check", "kernel.py", "--problem", "rmsnorm", "--profile", "quick", "-q"]) == 0
    assert main(["certificate", "sign", "last", "--out", "c.json"]) == 0
    capsys.readouterr()
    assert main(["certificate", "covers", "c.json", "kernel.py", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "sm_" in found["certificate"]["environment"]["device"]

"""What Triton compiles for sm_100 runs to the right values and without alarms, with no such GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.findings import MachineReport
from ptxsan.launch import Argument, Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_support.ptx import buffer_of

pytest.importorskip("numba")
pytest.importorskip("triton")
ml_dtypes = pytest.importorskip("ml_dtypes")

_KERNELS = Path(__file__).parents[1] / "ptxsan_corpus" / "triton_tensor_kernels.py"


def _compiled(kernel: str, types: Mapping[str, str], constants: Mapping[str, int]) -> Any:
    """Return a kernel for sm_100: its PTX, its name there and its bytes of shared memory."""
    asked = json.dumps((kernel, types, constants))
    command = [sys.executable, "-P", str(_KERNELS), asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _run(kernel: Any, *arguments: NDArray[Any] | int) -> tuple[MachineReport, bytes]:
    """Run a compiled kernel in one block; return the report and the bytes of its last array."""
    given: list[Argument] = []
    last = buffer_of(np.zeros(1))
    for one in arguments:
        if isinstance(one, int):
            given.append(one.to_bytes(4, "little"))
        else:
            last = buffer_of(one)
            given.append(Pointer(buffer=last))
    scratch = [Buffer(name=name, data=np.zeros(256, np.uint8)) for name in ("global", "profile")]
    given += [Pointer(buffer=one) for one in scratch]
    launch = Launch(
        kernel=kernel["name"], grid=(1, 1, 1), block=(128, 1, 1), arguments=tuple(given),
        dynamic_shared_bytes=kernel["shared"],
    )  # fmt: skip
    text = kernel["ptx"]
    assert "tcgen05.mma" in text
    return run(parse(text), launch, options=Options(arch=100, shadow=False)), last.data.tobytes()


_FORMS = (
    ("fp16", np.float16, "fp32", np.float32, 1e-5),
    ("fp8e4nv", ml_dtypes.float8_e4m3fn, "fp32", np.float32, 1e-4),
    ("fp16", np.float16, "fp16", np.float16, 4e-3),
)


@pytest.mark.parametrize(("spelt", "kind", "result", "wide", "tolerance"), _FORMS)
def test_a_product_of_triton_is_right(
    spelt: str, kind: Any, result: str, wide: Any, tolerance: float
) -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(s).astype(kind) for s in ((128, 128), (128, 64)))
    types = {"a": f"*{spelt}", "b": f"*{spelt}", "c": f"*{result}", "depth": "i32"}
    kernel = _compiled("product", types, {"M": 128, "N": 64, "K": 64})
    c = np.zeros((128, 64), wide)
    report, found = _run(kernel, a, b, c, 128)
    assert (report.inconclusive, report.wrong) == (None, ())
    expected = a.astype(np.float64) @ b.astype(np.float64)
    worst = np.abs(np.frombuffer(found, wide).reshape(c.shape) - expected).max()
    assert worst <= tolerance * np.abs(expected).max()


def test_an_attention_of_triton_is_right() -> None:
    random = np.random.default_rng(2)
    q, k, v = (random.standard_normal((n, 64)).astype(np.float16) for n in (128, 128, 128))
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "c": "*fp32", "length": "i32"}
    kernel = _compiled("attention", types, {"M": 128, "N": 64, "K": 64})
    c = np.zeros((128, 64), np.float32)
    report, found = _run(kernel, q, k, v, c, 128)
    assert (report.inconclusive, report.wrong) == (None, ())
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = p @ v.astype(np.float64) / p.sum(axis=1, keepdims=True)
    worst = np.abs(np.frombuffer(found, np.float32).reshape(c.shape) - expected).max()
    assert worst <= 3e-3 * np.abs(expected).max()

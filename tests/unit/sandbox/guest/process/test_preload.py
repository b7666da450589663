"""Modules are imported before workers are forked only as far as they leave CUDA alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# A stand-in for a torch on which an import starts CUDA: forked children are then told so.
_SCRIPT = """
import os, sys, types
cuda = types.ModuleType("torch.cuda")
cuda.started = None
cuda._is_in_bad_fork = lambda: cuda.started not in (None, os.getpid())
def is_available():  # by the driver, which starts
    cuda.started = os.getpid()
    return True
cuda.is_available = is_available
torch = types.ModuleType("torch")
torch.cuda = cuda
sys.modules["torch"], sys.modules["torch.cuda"] = torch, cuda
from cuassay.model.device import Device
from cuassay.sandbox.guest.process.preload import preload_compiler
preload_compiler(Device(sys.argv[1]), ("first", "second", "absent", "third"))
assert cuda.is_available is is_available
print(sorted({"first", "second", "third"} & set(sys.modules)), cuda.started is not None)
"""


@pytest.mark.parametrize(
    ("device", "starts", "expected"),
    [
        ("cuda", "asks", "['first', 'second', 'third'] False"),
        ("cuda", "", "['first', 'second', 'third'] False"),
        ("cuda", "second", "['first'] False"),
        ("cuda:1", "first", "[] False"),
        ("cpu", "", "['first', 'second', 'third'] False"),
    ],
)
def test_what_touches_cuda_is_left_to_the_worker(
    tmp_path: Path, device: str, starts: str, expected: str
) -> None:
    for name in ("first", "second", "third"):
        start = "import os, torch.cuda\ntorch.cuda.started = os.getpid()\n"
        (tmp_path / f"{name}.py").write_text(start if name == starts else "")
    if starts == "asks":
        (tmp_path / "second.py").write_text("import torch.cuda\nassert torch.cuda.is_available()\n")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, device],
        env={"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == expected, done.stderr

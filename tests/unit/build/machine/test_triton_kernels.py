"""Triton wrappers on CPU tensors: what of a launch reaches the machine; Gluon's are executed."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuassay.build import triton_arguments
from cuassay.build.machine import triton_kernels as machine_triton
from cuassay.catalog import registry
from cuassay.sandbox.host.nursery import Nursery
from tests.support.paths import python_path
from tests.zoo.judging import Gate

pytest.importorskip("triton")
# Triton's driver and its native functions are for a process of their own.
SCRIPT = """
import sys, torch
from cuassay.build.machine import triton_kernels as machine_triton
from cuassay.build.cuda_facade import cuda_facade
seen = []
machine_triton.enable(lambda ptx, entry, **launch: seen.append((ptx, entry, launch)), arch=80,
                      multiprocessors=4)
from tests.machine import triton_kernels as kernels
x = torch.ones(5, 300)
with cuda_facade():
    kernels.softmax(x)
    kernels.matmul(x[:, :64].half(), torch.ones(64, 32).half())
    kernels.grouped_gemm(*(torch.ones(8, 8).half() for _ in range(4)))
(ptx, entry, launch), second, third = seen
assert entry == "_softmax" and f".entry {entry}(" in ptx, entry
assert launch["grid"] == (5, 1, 1) and launch["block"] == (128, 1, 1), launch
pointer = int.from_bytes(launch["arguments"][0], "little")
assert pointer == x.data_ptr()
assert launch["arguments"][2] == (300).to_bytes(4, "little")
assert launch["arguments"][-2:] == [bytes(8), bytes(8)]
assert second[1] == "_matmul" and second[2]["shared_bytes"] > 0  # the first configuration
assert second[2]["grid"] == (1, 1, 1)
assert third[2]["grid"] == (3, 1, 1) and "mma.sync" in third[0]
from triton.compiler.errors import CompilationError
try:  # None, which a caller passes by mistake: no architecture takes it, and others are not asked
    with cuda_facade():
        kernels._softmax[(5,)](None, x, 300, 300, BLOCK=512)
except CompilationError as error:
    assert "NoneType" in str(error)
    print("done")
"""


def test_launches_reach_the_machine_with_their_arguments(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[4]
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": python_path(root / "src", root),
    }
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        ("tl.load(x)", 80),
        ("tl.float8e4nv", 90),
        ("wgmma.mma_async", 90),
        ("tl.atomic_add(x, y.to(tl.bfloat16))", 90),
        ("tl.atomic_add(x, y)", 80),
        ("from triton.experimental.gluon.language.nvidia import blackwell", 100),
    ],
)
def test_the_architecture_follows_what_the_sources_speak_of(
    text: str, arch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUASSAY_MACHINE_ARCH", raising=False)
    assert machine_triton.architecture_for(text) == arch
    monkeypatch.setenv("CUASSAY_MACHINE_ARCH", "sm_90a")
    assert machine_triton.architecture_for(text) == 90


def test_parameters_are_packed_as_triton_passes_them() -> None:
    packed, held = triton_arguments.parameters(
        ["*fp32", "i32", "constexpr", "fp32", "i1", "*i8"], [None, -5, 9, 0.5, True, 4096]
    )
    assert packed == [
        bytes(8), struct.pack("<i", -5), struct.pack("<f", 0.5), b"\x01", struct.pack("<Q", 4096),
    ]  # fmt: skip
    assert held == []


def test_a_kernel_in_gluon_is_executed_as_one_of_tritons(nursery: Nursery) -> None:
    example = Path(__file__).resolve().parents[4] / "examples" / "languages" / "swiglu_gluon.py"
    with Gate("cpu", nursery=nursery) as gate:
        found = gate.judge(registry.get("swiglu"), example, only=("NUM001", "MEM101"))
    assert found.accepted, str(found)
    launches = found.verdict.launches
    assert launches.judged == launches.made > 0


def test_a_tuple_of_constants_is_one_parameter_of_the_signature() -> None:
    metadata = SimpleNamespace(num_warps=4, shared=0)
    signature = {"n": "i32", "block": "constexpr", "pair": ("i32", "constexpr"), "m": "i32"}
    launch = triton_arguments.packed(metadata, signature, (1, 1, 1), [5, (128, 64), (6, 9), 7])
    assert launch.arguments[:3] == [struct.pack("<i", one) for one in (5, 6, 7)]

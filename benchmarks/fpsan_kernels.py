"""Triton kernels compiled with FpSan, Triton's own payload arithmetic; run by machine_fpsan.py.

    python fpsan_kernels.py FOLDER

Writes NAME.ptx and NAME.json of each kernel. Needs Triton and nothing else: no torch, no GPU.
"""
# mypy: ignore-errors

from __future__ import annotations

import json
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton._C import libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def one_pass(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    o = tl.arange(0, BLOCK)
    v = tl.load(x + row + o, mask=o < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + o, e / tl.sum(e, 0), mask=o < n)


@triton.jit
def no_maximum(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    o = tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + row + o, mask=o < n, other=-float("inf")))
    tl.store(y + row + o, e / tl.sum(e, 0), mask=o < n)


@triton.jit
def online(x, y, n, BLOCK: tl.constexpr, RESCALE: tl.constexpr):
    row = tl.program_id(0) * n
    m, s = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        o = start + tl.arange(0, BLOCK)
        v = tl.load(x + row + o, mask=o < n, other=-float("inf"))
        k = tl.maximum(m, tl.max(v, 0))
        if RESCALE:
            s = s * tl.exp(m - k)
        s += tl.sum(tl.exp(v - k), 0)
        m = k
    for start in range(0, n, BLOCK):
        o = start + tl.arange(0, BLOCK)
        v = tl.load(x + row + o, mask=o < n, other=-float("inf"))
        tl.store(y + row + o, tl.exp(v - m) / s, mask=o < n)


@triton.jit
def matmul(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        at = start + inner
        p = tl.load(a + rows[:, None] * k + at[None, :], mask=at[None, :] < k, other=0.0)
        q = tl.load(b + at[:, None] * N + columns[None, :], mask=at[:, None] < k, other=0.0)
        total += tl.dot(p, q, input_precision="ieee")
    tl.store(c + rows[:, None] * N + columns[None, :], total)


_ROWS = {"x": "*fp32", "y": "*fp32", "n": "i32"}
_GEMM = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "k": "i32"}
VARIANTS = {
    "softmax_4_warps": (one_pass, _ROWS, {"BLOCK": 1024}, 4),
    "softmax_8_warps": (one_pass, _ROWS, {"BLOCK": 1024}, 8),
    "softmax_online_256": (online, _ROWS, {"BLOCK": 256, "RESCALE": True}, 4),
    "softmax_online_128": (online, _ROWS, {"BLOCK": 128, "RESCALE": True}, 2),
    "softmax_no_rescale": (online, _ROWS, {"BLOCK": 256, "RESCALE": False}, 4),
    "softmax_no_maximum": (no_maximum, _ROWS, {"BLOCK": 1024}, 4),
    "matmul_32x32x16": (matmul, _GEMM, {"BM": 32, "BN": 32, "BK": 16, "N": 64}, 4),
    "matmul_64x16x32": (matmul, _GEMM, {"BM": 64, "BN": 16, "BK": 32, "N": 64}, 4),
    "matmul_16x64x16": (matmul, _GEMM, {"BM": 16, "BN": 64, "BK": 16, "N": 64}, 2),
}


def main(folder: Path) -> None:
    """Compile every variant for sm_80, with FpSan and without."""
    if not hasattr(libtriton.passes.ttgpuir, "add_fp_sanitizer"):
        sys.exit(
            f"Triton {triton.__version__} has no FpSan (instrumentation_mode 'fpsan'); Triton 3.9 "
            "has: pip install 'triton==3.9.*' in an environment of its own, and give its "
            "interpreter as --python"
        )
    target = GPUTarget("cuda", 80, 32)
    for name, (kernel, types, constants, warps) in VARIANTS.items():
        signature = {**types, **dict.fromkeys(constants, "constexpr")}
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        for mode in ("", "fpsan"):
            options = {"num_warps": warps, "instrumentation_mode": mode}
            made = triton.compile(source, target=target, options=options)
            metadata = made.metadata
            stem = f"{name}{'.fpsan' if mode else ''}"
            (folder / f"{stem}.ptx").write_text(made.asm["ptx"])
            told = {
                "triton": triton.__version__,
                "kernel": metadata.name,
                "warps": metadata.num_warps,
                "shared": metadata.shared,
                "global_scratch": metadata.global_scratch_size,
                "profile_scratch": metadata.profile_scratch_size,
                "constants": constants,
            }
            (folder / f"{stem}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

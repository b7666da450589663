"""PTX of Triton kernels, made without a GPU, and the assembler to try it with."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def tile_product(a, b, c, k_size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k_size, K):
        x = tl.load(a + rows[:, None] * k_size + (start + inner)[None, :])
        y = tl.load(b + (start + inner)[:, None] * N + columns[None, :])
        total += tl.dot(x, y)
    tl.store(c + rows[:, None] * N + columns[None, :], total)

@triton.jit
def row_sums(x, y, size, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * size + column, mask=column < size, other=0.0)
    tl.atomic_add(y + row, tl.sum(value, 0))
"""
_SIGNATURES: dict[str, tuple[dict[str, str], dict[str, int]]] = {
    "tile_product": (
        {"a": "*bf16", "b": "*bf16", "c": "*fp32", "k_size": "i32"},
        {"M": 64, "N": 64, "K": 64},
    ),
    "row_sums": ({"x": "*fp32", "y": "*fp32", "size": "i32"}, {"BLOCK": 1024}),
}


def ptxas() -> str:
    """Return the path of an assembler: that of Triton's wheel, or one on PATH; or nothing."""
    spec = importlib.util.find_spec("triton")
    for place in (spec and spec.submodule_search_locations) or ():
        own = Path(place) / "backends" / "nvidia" / "bin" / "ptxas"
        if own.is_file():
            return shutil.which("ptxas") or str(own)
    return shutil.which("ptxas") or ""


def module_of(folder: Path) -> ModuleType:
    """Import the kernels from a file in `folder`; skip the test without Triton."""
    pytest.importorskip("triton")
    file = folder / "ptx_kernels.py"
    file.write_text(KERNELS)
    spec = importlib.util.spec_from_file_location("ptx_kernels", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ptx_kernels"] = module
    spec.loader.exec_module(module)
    return module


def compiled(module: ModuleType, name: str) -> Any:
    """Return a kernel compiled for sm_90: `asm` holds its PTX and its cubin."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(module, name)
    if type(function).__name__ != "JITFunction":
        pytest.skip("Triton interprets in this process")
    signature, constants = _SIGNATURES[name]
    source = ASTSource(
        function,
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(index,): [["tt.divisibility", 16]] for index in range(len(signature))},
    )
    return triton.compile(source, target=GPUTarget("cuda", 90, 32))


@cache
def triton_ptx() -> dict[str, str]:
    """Return the PTX of every kernel by name; skip the test without Triton."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        module = module_of(Path(folder))
        return {name: compiled(module, name).asm["ptx"] for name in _SIGNATURES}

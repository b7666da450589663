"""Candidates as data."""

from __future__ import annotations

import pytest

from cuassay.model.candidate import (
    BuildFlags,
    Candidate,
    Language,
    SourceFile,
)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ([""], ()),
        (["-O3 --use_fast_math", "-lineinfo"], ("-O3", "--use_fast_math", "-lineinfo")),
        (["-DNAME='a b'"], ("-DNAME=a b",)),
        (["-DQUOTE='"], ("-DQUOTE='",)),
    ],
)
def test_flags_are_the_words_that_a_shell_makes_of_them(
    written: list[str], words: tuple[str, ...]
) -> None:
    flags = BuildFlags.as_written(cflags=written, cuda_cflags=(), ld_flags=written)
    assert flags == BuildFlags(cflags=words, ld_flags=words)


@pytest.mark.parametrize(
    ("text", "computes"),
    [
        ("import torch\ndef f(x): return x * 2", True),
        ("import triton\n@triton.jit\ndef k(x): pass", False),
        ("from numba import cuda\n@cuda.jit\ndef k(x): pass", False),
        ("from torch.utils.cpp_extension import load_inline\next = load_inline()", False),
        ("from triton.experimental import gluon\n@gluon.jit\ndef k(x): pass", False),
        ("import cutlass.cute as cute\n@cute.kernel\ndef k(x): pass", False),
        ("from quack.softmax import softmax\ndef run(x): return softmax(x)", False),
        ("import tilelang\nimport tilelang.language as T\n@T.prim_func\ndef k(x): pass", False),
        ("import helion\n@helion.kernel\ndef k(x): pass", False),
        ("import cupy\nk = cupy.RawKernel('', 'k')", False),
        ("from cuda.core import Program\nk = Program('', 'c++')", False),
    ],
)
def test_which_kernels_torch_sees_the_values_of(text: str, computes: bool) -> None:
    candidate = Candidate(
        name="k",
        sources=(SourceFile(path="k.py", text=text),),
        entry_file="k.py",
        entry_function="f",
        language=Language.PYTHON,
    )
    assert candidate.computes_in_torch is computes


@pytest.mark.parametrize(
    ("text", "hosts", "compiles"),
    [
        ("load_inline('m', cpp_sources='...', cuda_sources='__global__ void k() {}')", True, True),
        ("load_inline('m', cpp_sources='#include <cuda_runtime.h>')", True, False),
        ("load_inline('m', cpp_sources='at::Tensor f(at::Tensor x) { return x; }')", False, False),
        ("def f(x): return torch.empty(3, device='cuda')", False, False),
    ],
)
def test_which_extensions_need_what_stands_in_for_a_gpu(
    text: str, hosts: bool, compiles: bool
) -> None:
    candidate = Candidate(
        name="k",
        sources=(SourceFile(path="k.py", text=text),),
        entry_file="k.py",
        entry_function="f",
        language=Language.PYTHON,
    )
    assert (candidate.hosts_cuda, candidate.compiles_cuda) == (hosts, compiles)

"""The line of an instruction is the user's own, wherever the code of a library was inlined."""

from __future__ import annotations

import pytest

from ptxsan.lines import is_library, own_line
from ptxsan.syntax import SourceLine

_MINE, _THEIRS = "/home/me/kernel.cu", "/usr/local/cuda-13.0/include/cuda_fp16.hpp"


@pytest.mark.parametrize(
    "file",
    [
        "/venv/lib/python3.12/site-packages/triton/language/standard.py",
        "/usr/lib/python3/dist-packages/torch/include/ATen/ATen.h",
        "/usr/local/cuda-13.0/targets/x86_64-linux/include/cuda_fp16.hpp",
        "/usr/local/cuda/include/mma.h",
        "cub/block/block_reduce.cuh",
        "/opt/cutlass/include/cute/tensor.hpp",
        "/x/cuda/std/span",
        "/x/cuda/__atomic/atomic.h",
    ],
)
def test_headers_of_libraries_are_known(file: str) -> None:
    assert is_library(file)


@pytest.mark.parametrize(
    "file",
    [
        _MINE,
        "/home/me/site-packages/mine/kernel.py",
        "/home/me/cuda/kernel.cu",
        "/home/me/cubes/kernel.cu",
        "/home/me/my_triton/kernel.py",
        "",
    ],
)
def test_files_of_the_user_are_not_taken_for_libraries(file: str) -> None:
    assert not is_library(file)


def test_code_of_a_library_is_followed_to_who_called_it() -> None:
    mine = SourceLine(file=_MINE, line=12)
    inner = SourceLine(file=_THEIRS, line=900, inlined_at=SourceLine(file=_THEIRS, line=7))
    called = SourceLine(file=_THEIRS, line=3, inlined_at=mine)
    assert own_line(mine) is mine
    assert own_line(called) is mine
    assert own_line(inner) == SourceLine(file=_THEIRS, line=7)  # a library alone: its outermost
    assert own_line(None) is None


def test_a_user_s_function_that_was_inlined_is_the_line_itself() -> None:
    helper = SourceLine(file=_MINE, line=3, inlined_at=SourceLine(file=_MINE, line=40))
    assert own_line(helper) is helper

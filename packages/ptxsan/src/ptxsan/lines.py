"""Which line of a program an instruction comes from: the user's own, not that of a header."""

from __future__ import annotations

import re

from ptxsan.syntax import SourceLine

# Headers of CUDA (toolkit or wheels), CUB and its kin, and torch; Triton's own functions.
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/(?:nvidia|torch|triton|numba|numba_cuda|llvmlite|cupy|tilelang)/"
    r"|/cuda(?:-[\d.]+)?/(?:targets/[^/]+/)?include/"
    r"|(?:^|/)(?:cub|cute|cutlass|cccl|thrust|libcudacxx|cooperative_groups|crt)/"
    r"|(?:^|/)cuda/(?:std|__\w+)/"
)


def is_library(file: str) -> bool:
    """Whether a file belongs to a library that kernels are written with."""
    return _LIBRARY.search(file) is not None


def own_line(source: SourceLine | None) -> SourceLine | None:
    """Return the user's own line that an instruction comes from; None where it has no line.

    Functions of libraries are followed to who called them. Of a library alone, as where the whole
    kernel is one, it is the outermost line.
    """
    outer = source
    while source is not None:
        if not is_library(source.file):
            return source
        outer, source = source, source.inlined_at
    return outer

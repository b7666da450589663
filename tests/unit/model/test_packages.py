"""Packages for kernels, known by what a source imports and names."""

from __future__ import annotations

import pytest

from cuassay.model.packages import Package, packages_of


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("import triton.language as tl", Package.TRITON),
        ("from fla.modules.rotary import ops", Package.TRITON),
        ("def run(x):\n    import conch\n    return conch.f(x)", Package.TRITON),
        ("from cut_cross_entropy import linear_cross_entropy", Package.TRITON),
        ("from vllm.triton_utils import tl", Package.TRITON),
        ("from .layers import triton_norm", Package.TRITON),
        ("import importlib\nt = importlib.import_module('triton')", Package.TRITON),
        ("t = __import__('triton')", Package.TRITON),
        ("code = '''\nimport triton\n@triton.jit\ndef k(): ...\n'''\nexec(code)", Package.TRITON),
        ("import triton\nprint 'python 2'", Package.TRITON),
        ("import cutlass.cute as cute", Package.CUTE),
        ("from cutlass import cute", Package.CUTE),
        ("import cutlass\n@cutlass.cute.kernel\ndef k(): ...", Package.CUTE),
        ("from quack.softmax import softmax", Package.CUTE),
        ("from cuda.core import Program", Package.DRIVER),
        ("from cuda.bindings import driver", Package.DRIVER),
        ("from numba import cuda, float32", Package.NUMBA),
        ("import numba\n@numba.cuda.jit\ndef k(): ...", Package.NUMBA),
        ("import numba as nb\n@nb.cuda.jit\ndef k(): ...", Package.NUMBA),
        ("import tilelang.language as T", Package.TILELANG),
        ("try:\n    import cupy as cp\nexcept ImportError:\n    cp = None", Package.CUPY),
    ],
)
def test_a_package_is_known_by_imports_and_names(text: str, package: Package) -> None:
    assert packages_of(text) == {package}


@pytest.mark.parametrize(
    "text",
    [
        "import flatten",
        "flat = x.flatten()  # no word of fla",
        "from torch import fla",
        "import torch  # faster than cupy, triton and cuda.core",
        'def run(x):\n    """As in Triton:\n\n    import triton\n    """\n    return x',
        "message = 'install cupy, or tilelang'",
        "import numba\n@numba.njit\ndef f(x): return x",
        "from numba import njit",
        "import cutlass_library",
        "cuda.jit = 3",
        "",
    ],
)
def test_words_alone_use_nothing(text: str) -> None:
    assert packages_of(text) == frozenset()


def test_several_packages_are_all_known() -> None:
    text = "import cupy\nfrom numba import cuda\nimport helion"
    assert packages_of(text) == {Package.CUPY, Package.NUMBA, Package.TRITON}

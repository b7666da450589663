"""TileLang kernels without a GPU: compiled by NVRTC for an architecture, launched by the driver.

Of TileLang's ways to run a kernel the one called `nvrtc` has its host code in Python, which calls
the driver through cuda.bindings (`driver_api`). The others load machine code by libraries of their
own. Interface: tilelang/contrib/nvrtc.py and tilelang/jit of 0.1.15.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

from cuassay.errors import MissingToolError

_OWN_WAYS = ("tvm_ffi", "cython", "torch")  # of launching machine code


def enable(*, arch: int, folder: Path) -> None:
    """Make this process's TileLang compile for `arch` and launch through the driver.

    What it keeps on disk goes to `folder`: one process of a candidate compiles for the next. Must
    run before the candidate is imported. Raises MissingToolError where the installed TileLang has
    another interface; none is no error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TILELANG_CACHE_DIR"] = str(folder)
    if importlib.util.find_spec("tilelang") is None:
        return  # importing the candidate says so
    try:
        compiler: Any = importlib.import_module("tilelang.contrib.nvrtc")
        targets: Any = importlib.import_module("tilelang.cuda.target")
        module: Any = importlib.import_module("tilelang.backend.module").BackendModule
        version, resolve = compiler.get_target_compute_version, module.resolve_execution_backend
        _ = targets.check_cuda_availability, targets._detect_torch_cuda_arch
    except (ImportError, AttributeError) as error:
        raise MissingToolError(
            f"this TileLang has another interface ({error}); install tilelang 0.1.15"
        ) from error

    def version_of(target: Any = None) -> str:  # else that of the GPU
        return str(version(target)) if target is not None else f"{arch // 10}.{arch % 10}"

    @functools.wraps(resolve)
    def by_driver(self: Any, requested: str | None, target: Any) -> Any:
        own = requested is None or requested in ("auto", *_OWN_WAYS)
        wanted = "nvrtc" if own and target.kind.name == "cuda" else requested
        return resolve(self, wanted, target)

    # The architecture that it writes C++ for must be the one that NVRTC compiles for: torch here
    # answers for a GPU with TMA, which sm_80 lacks.
    targets._detect_torch_cuda_arch = lambda: f"sm_{arch}{'a' if arch >= 90 else ''}"
    targets.check_cuda_availability = lambda: True  # it asks for nvcc, which nothing here needs
    compiler.get_target_compute_version = version_of
    module.resolve_execution_backend = by_driver

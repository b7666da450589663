"""Executes and sanitises CUDA kernels on a CPU: a PTX machine that needs no GPU.

    report = ptxsan.check("k.cu", "scale", grid=4, block=256, args=[x, ptxsan.empty(1000), 1000])
    assert report.ok, report.text

`check` executes one kernel with every check on; `empty` is memory that nobody has written;
`run.run` executes one launch of a parsed module. Nothing heavy loads here: llvmlite, numba and
numpy do when a kernel is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxsan.api import Report, check, empty
    from ptxsan.findings import Kind, Severity
    from ptxsan.options import Options

__all__ = ["Kind", "Options", "Report", "Severity", "check", "empty"]
_HOMES = {
    "check": "api", "empty": "api", "Report": "api", "Kind": "findings", "Severity": "findings",
    "Options": "options",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ptxsan' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f"ptxsan.{_HOMES[name]}"), name)

"""Tests of launches in shared libraries run where no CUDA runtime is visible to every library.

A process that has executed CUDA host code on the CPU holds one (`ptxsan.host`), and libraries that
bind late would call it instead of the runtime that a test plants. Such a test then runs in a
process of its own.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test of library launches apart where this process has a runtime for everybody."""
    if pyfuncitem.path.name != "test_library_launches.py":
        return None
    if not hasattr(ctypes.CDLL(None), "cudaLaunchKernel"):
        return None
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", pyfuncitem.nodeid],
        cwd=pyfuncitem.config.rootpath,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return True

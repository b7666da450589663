"""Tests of Triton's compiler, run in a new process where its interpreter has been here before.

Interpreting a kernel leaves Triton's language patched for the rest of the process.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_APART = "CUASSAY_TEST_APART"


def compiler_apart(test: Callable[..., None]) -> Callable[..., None]:
    """Return a test that a new process runs where this one has interpreted a kernel."""

    @functools.wraps(test)
    def ran(*arguments: Any, **keywords: Any) -> None:
        if not _interpreted():
            test(*arguments, **keywords)
            return
        name = os.environ["PYTEST_CURRENT_TEST"].rsplit(" ", 1)[0]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")} | {_APART: "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
        done = subprocess.run(
            command, cwd=ROOT, env=kept, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout

    return ran


def _interpreted() -> bool:
    return _APART not in os.environ and "triton.runtime.interpreter" in sys.modules

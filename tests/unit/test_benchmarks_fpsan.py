"""The comparison with Triton's FpSan, where the installed Triton has none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_a_triton_without_fpsan_is_told_which_one_has_it(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "fpsan_kernels.py"
    code = f"import sys; sys.path.insert(0, {str(script.parent)!r}); import fpsan_kernels as k; "
    code += "vars(k.libtriton.passes.ttgpuir).pop('add_fp_sanitizer', None); "
    code += f"k.main(__import__('pathlib').Path({str(tmp_path)!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Triton 3.9 has: pip install 'triton==3.9.*'" in done.stderr

"""Kernels that a candidate defines are counted, whichever of Triton's languages they are in."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from cuassay.build.recording.ledger import LEDGER, count_triton
from tests.support import trees

_GLUON = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def copy(x, y, size: gl.constexpr):
    pass
"""


def test_a_gluon_kernel_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton.experimental.gluon")
    monkeypatch.setattr(LEDGER, "root", "")
    monkeypatch.setattr(LEDGER, "blind", "")
    monkeypatch.setattr(LEDGER, "asked", {})
    count_triton(tmp_path, _GLUON)
    file = trees.write(tmp_path / "gluon_copy.py", _GLUON)
    spec = importlib.util.spec_from_file_location("gluon_copy", file)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert LEDGER.asked == {"copy": 0}

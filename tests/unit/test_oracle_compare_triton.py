"""The fused kernel in Triton's interpreter gives the sums of the plain path."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cuassay.model.dtype import DType
from cuassay.oracle import compare_sums
from cuassay.oracle.trust_types import OutputTruth

pytest.importorskip("triton", reason="triton is not installed")


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A private copy of the module, its kernel decorated while the interpreter is on."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    path = Path(compare_sums.__file__).with_name("compare_triton.py")
    name = "interpreted_compare_triton"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, name, module)
    found.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("shape", [(70, 40), (3, 300), (1, 1500)])
def test_interpreted_kernel_agrees(interpreted: ModuleType, shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    value = torch.randn(shape, generator=generator, dtype=torch.float64)
    scale = (value.abs() * 1e-7 + 1e-8).float()
    candidate = (value + 1e-7 * torch.randn(shape, generator=generator)).float()
    value[0, 3], candidate[0, 3], scale[0, 3] = 0.0, 0.0, 0.0
    scale[0, 5] *= -1.0
    value[0, 7], candidate[0, 7] = math.inf, math.inf
    candidate[0, 9] = math.nan
    output = OutputTruth(name="y", dtype=DType.FLOAT32, value=value, scale=scale, unit=1e-7)
    fused = interpreted.fused_sums(candidate, value, scale, output)
    plain = compare_sums.eager_sums(candidate, value, scale, output)
    close = {"rtol": 1e-4, "atol": float(plain.rows.abs().max()) * 1e-6}
    assert torch.allclose(fused.rows, plain.rows, **close)
    if fused.columns.numel():
        assert torch.allclose(fused.columns, plain.columns, **close)
    assert float(fused.peak.max()) == pytest.approx(compare_sums.MISMATCH)
    assert int((fused.peak >= 1e38).sum()) == 1

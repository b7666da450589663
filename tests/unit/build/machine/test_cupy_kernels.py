"""CuPy's raw kernels on CPU tensors: what arguments become, and which parts need a GPU."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.dlpack import from_dlpack

from cuassay.build.machine import cupy_kernels
from cuassay.build.machine.cupy_kernels import Array
from cuassay.catalog import registry
from cuassay.errors import MissingToolError
from tests.zoo.judging import Gate

pytest.importorskip("numba")


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (True, b"\1"),
        (-2, struct.pack("<q", -2)),
        (2**63, struct.pack("<Q", 2**63)),
        (0.5, struct.pack("<d", 0.5)),
        (np.float32(0.5), struct.pack("<f", 0.5)),
        (np.int32(7), struct.pack("<i", 7)),
        (1 + 2j, struct.pack("<dd", 1, 2)),
        (None, bytes(8)),
    ],
)
def test_arguments_have_the_bytes_that_cupy_passes(value: Any, raw: bytes) -> None:
    assert cupy_kernels._argument(value) == raw


def test_an_array_is_passed_by_its_address() -> None:
    x = torch.arange(6.0).view(2, 3)
    array = Array(tensor=x)
    assert cupy_kernels._argument(array) == struct.pack("<Q", x.data_ptr())
    assert (array.shape, array.size, array.ndim, array.dtype) == ((2, 3), 6, 2, np.float32)
    assert array.reshape(3, 2).shape == (3, 2)
    assert torch.equal(from_dlpack(array), x)
    with pytest.raises(TypeError, match="Unsupported type"):
        cupy_kernels._argument(x)  # CuPy takes no tensors either


@pytest.mark.parametrize(
    "use", [lambda x: x + 1, lambda x: 2 * x, lambda x: x[0], lambda x: x.sum(), lambda x: -x]
)
def test_what_cupy_computes_itself_needs_a_gpu(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_kernels, "note", lambda failure: None)
    with pytest.raises(MissingToolError, match="judge it with --device cuda"):
        use(Array(tensor=torch.ones(3)))


def test_the_example_is_accepted_and_a_kernel_with_another_gate_is_not(tmp_path: Path) -> None:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("no cupy")
    example = Path(__file__).resolve().parents[4] / "examples" / "languages" / "swiglu_cupy.py"
    broken = tmp_path / example.name
    broken.write_text(example.read_text().replace("expf(-g)", "expf(0.1f - g)"))
    with Gate("cpu", machine=True) as gate:
        found = gate.judge(registry.get("swiglu"), example, only=("NUM001", "MEM101"))
        wrong = gate.judge(registry.get("swiglu"), broken, only=("NUM001",))
    assert found.accepted, str(found)
    launches = found.verdict.launches
    assert launches.judged == launches.made > 0
    assert wrong.codes == ("NUM001",)


def test_what_is_kept_by_device_asks_for_none() -> None:
    made: list[int] = []
    kept = cupy_kernels._memoize(for_each_device=True)(made.append)
    kept(3)
    kept(3)
    assert made == [3]


def test_arrays_have_the_order_that_is_asked_for() -> None:
    x = torch.arange(6.0).view(2, 3)
    columns = cupy_kernels._over_a_tensor(None, "F")(x)
    assert columns.strides == (4, 8)
    assert torch.equal(columns.tensor, x)
    rows = cupy_kernels._over_a_tensor(None, "C")(columns)
    assert rows.strides == (12, 4)
    kept = cupy_kernels._over_a_tensor(None)(columns)
    assert kept.tensor.data_ptr() == columns.tensor.data_ptr()
    made = cupy_kernels._new_array(torch.zeros)((2, 3), "float32", order="F")
    assert (made.shape, made.strides) == ((2, 3), (4, 8))

"""Memory kept before a launch."""

from __future__ import annotations

import numpy as np

from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.parser import parse
from ptxsan.watching import Snapshot, snapshot
from ptxsan_support.ptx import buffer_of, kernel

_TEXT = kernel("st.global.u32 [%rd1], 7;").replace(
    ".visible .entry", ".visible .global .u32 counter;\n.visible .entry"
)


def _launch(first: Buffer, second: Buffer, **changes: object) -> Launch:
    pointers = (Pointer(buffer=first), Pointer(buffer=second))
    return Launch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1), arguments=pointers, **changes)  # type: ignore[arg-type]


def test_memory_is_put_back_as_it_was() -> None:
    first, second = (buffer_of(np.arange(4, dtype=np.uint32), name) for name in "ab")
    second.initialised = np.zeros(16, np.uint8)
    variables = {"counter": np.zeros(4, np.uint8)}
    kept = Snapshot(_launch(first, second), variables, None)
    assert kept.is_now()
    assert kept.nbytes == 16 + 16 + 16 + 4
    for change in (first.data, second.initialised, variables["counter"]):
        change[1] = 9
        assert not kept.is_now()
        kept.restore()
        assert kept.is_now()
    first.shadow = np.ones(8, np.float32)
    kept.restore()
    assert first.shadow is None


def test_a_snapshot_of_a_module_has_its_variables() -> None:
    module = parse(_TEXT)
    first = buffer_of(np.zeros(4, np.uint32))
    assert snapshot(module, _launch(first, first)).nbytes >= 16

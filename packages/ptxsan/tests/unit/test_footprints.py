"""Ranges of bytes, and what a launch that ran has touched."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.footprints import contains, first_common, merged, rows, span
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
# Thread i reads x[i + 8], writes y[2 i] and adds to z[0].
_PTX = f"""{_HEAD}
.visible .entry touch(.param .u64 x, .param .u64 y, .param .u64 z)
{{
  .reg .b32 %r<4>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u64 %rd3, [z];
  cvta.to.global.u64 %rd4, %rd1;
  cvta.to.global.u64 %rd5, %rd2;
  cvta.to.global.u64 %rd6, %rd3;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd7, %r1, 4;
  add.s64 %rd8, %rd4, %rd7;
  ld.global.u32 %r2, [%rd8+32];
  mul.wide.u32 %rd9, %r1, 8;
  add.s64 %rd10, %rd5, %rd9;
  st.global.u32 [%rd10], %r2;
  red.global.add.u32 [%rd6], 1;
  ret;
}}
"""


def _buffer(name: str, words: int) -> Buffer:
    return Buffer(name=name, data=np.zeros(4 * words, np.uint8))


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_launch_says_what_it_read_wrote_and_updated(blocks: int) -> None:
    x, y, z, other = (_buffer(name, 64) for name in ("x", "y", "z", "other"))
    arguments = tuple(Pointer(buffer=one) for one in (x, y, z))
    launch = Launch(
        kernel="touch", grid=(1, 1, 1), block=(8 * blocks, 1, 1), arguments=arguments,
        buffers=(other,),
    )  # fmt: skip
    options = Options(shadow=False, footprints=True)
    found = {one.name: one.accesses for one in run(parse(_PTX), launch, options=options).touched}
    assert set(found) == {"x", "y", "z"}
    assert found["x"].reads.tolist() == [[32, 32 + 32 * blocks]]
    assert found["y"].writes.tolist() == [[8 * i, 8 * i + 4] for i in range(8 * blocks)]
    assert found["z"].updates.tolist() == [[0, 4]]
    assert not len(found["x"].writes)
    assert not len(found["z"].writes)


def test_nothing_is_said_of_it_unless_it_is_asked_for() -> None:
    buffers = [_buffer(name, 64) for name in ("x", "y", "z")]
    arguments = tuple(Pointer(buffer=one) for one in buffers)
    launch = Launch(kernel="touch", grid=(1, 1, 1), block=(8, 1, 1), arguments=arguments)
    assert run(parse(_PTX), launch, options=Options(shadow=False)).touched == ()


def test_ranges_as_sets_of_bytes() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        sets = []
        for _ in range(2):
            edges = np.unique(rng.integers(0, 40, 2 * rng.integers(0, 5)))
            edges = edges[: len(edges) & ~1].reshape(-1, 2)
            sets.append(edges.astype(np.int64))
        first, second = ({byte for low, high in one for byte in range(low, high)} for one in sets)
        whole = {byte for low, high in merged(*sets) for byte in range(low, high)}
        assert whole == first | second
        assert (first_common(*sets) is None) == (not first & second)
        if first & second:
            assert first_common(*sets) in first & second
        assert contains(merged(*sets), sets[0])
        assert contains(sets[0], sets[1]) == (second <= first)


def test_rows_are_apart_and_whole_where_nothing_is_between() -> None:
    assert rows(4, 8, 3, 16).tolist() == [[4, 12], [20, 28], [36, 44]]
    assert rows(4, 8, 3, 8).tolist() == [[4, 28]]
    assert span(3, 3).tolist() == []

"""A launch laid out in memory: parameters, tables and fields of its record."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ptxsan.codegen import generate
from ptxsan.errors import MachineError
from ptxsan.launch import Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.records import LaunchState, buffers_of, device_addresses, prepare
from ptxsan.runtime import layout as L
from ptxsan_support.ptx import buffer_of, kernel

_PARAMS = ".param .u64 a, .param .u64 b, .param .u32 n"
_PROGRAM = build(parse(kernel("st.global.u32 [%rd1], %r1;", params=_PARAMS)), "k")
_A, _B = (buffer_of(np.arange(8, dtype=np.uint32), name) for name in "ab")
_LAUNCH = Launch(
    kernel="k",
    grid=(3, 2, 1),
    block=(32, 1, 1),
    arguments=(Pointer(buffer=_A), Pointer(buffer=_B, offset=8), (7).to_bytes(4, "little")),
)


def _prepared(launch: Launch = _LAUNCH, *, checked: bool = False) -> LaunchState:
    chosen = Options(shadow=checked, races=checked)
    return prepare(_PROGRAM, generate(_PROGRAM, chosen), launch, chosen, {})


def test_fields_of_the_record_keep_their_bits() -> None:
    state = _prepared()
    state.set32(L.FUEL, -1)
    state.set64(L.SEED, (1 << 64) + 5)
    assert (state.get32(L.FUEL), state.get64(L.SEED)) == (0xFFFFFFFF, 5)


def test_sizes_of_the_launch_are_in_its_record() -> None:
    state = _prepared()
    assert [state.get32(L.GRID_DIM + 4 * axis) for axis in range(3)] == [3, 2, 1]
    assert [state.get32(L.BLOCK_DIM + 4 * axis) for axis in range(3)] == [32, 1, 1]
    assert state.get32(L.TOTAL_THREADS) == 6 * 32
    assert state.get32(L.BLOCK_GIDS) == 32


def test_each_buffer_has_memory_and_an_address_of_its_own() -> None:
    places = device_addresses(_PROGRAM, _LAUNCH)
    assert places.keys() == {id(_A), id(_B)}
    assert abs(places[id(_A)] - places[id(_B)]) > _A.data.size
    state = _prepared()
    assert [one.name for one in state.allocations] == ["a", "b"]
    assert all(bool(one.init.all()) for one in state.allocations)


def test_races_and_shadows_have_tables_where_they_are_wanted() -> None:
    plain, both = _prepared(), _prepared(checked=True)
    assert plain.allocations[0].meta.size == 0
    assert both.allocations[0].meta.size > 0
    assert both.allocations[0].shadow.size > plain.allocations[0].shadow.size


def test_a_buffer_is_listed_once_in_the_order_of_the_arguments() -> None:
    twice = dataclasses.replace(
        _LAUNCH, arguments=(Pointer(buffer=_B), Pointer(buffer=_A), Pointer(buffer=_B))
    )
    assert [one.name for one in buffers_of(twice)] == ["b", "a"]
    more = dataclasses.replace(_LAUNCH, buffers=(buffer_of(np.zeros(1, np.uint32), "c"), _A))
    assert [one.name for one in buffers_of(more)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (_LAUNCH.arguments[:2], "takes 3 arguments, the launch gives 2"),
        ((*_LAUNCH.arguments[:2], b"12345678"), "argument 2 .* has 8 bytes, 'n' takes 4"),
        ((b"1234", *_LAUNCH.arguments[1:]), "argument 0 .* has 4 bytes, 'a' takes 8"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    arguments: tuple[Pointer | bytes, ...], why: str
) -> None:
    with pytest.raises(MachineError, match=why):
        _prepared(dataclasses.replace(_LAUNCH, arguments=arguments))

"""Memory of a launch, counted before it starts, and refused where it is too much."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ptxsan import budget
from ptxsan.codegen import generate
from ptxsan.errors import MachineError
from ptxsan.launch import Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan_support.ptx import buffer_of, kernel

_PROGRAM = build(parse(kernel("st.global.u32 [%rd1], %r1;")), "k")
_PLAIN = Options(shadow=False, races=False, workers=1)


def _launch(count: int, *, grid: int = 1, block: int = 32) -> Launch:
    given = [Pointer(buffer=buffer_of(np.zeros(count, np.uint32), name)) for name in "ab"]
    return Launch(kernel="k", grid=(grid, 1, 1), block=(block, 1, 1), arguments=tuple(given))


def _budget(launch: Launch, options: Options) -> budget.Budget:
    return budget.of(_PROGRAM, generate(_PROGRAM, options), launch, options)


def test_a_byte_costs_itself_and_a_flag() -> None:
    small, large = _budget(_launch(1 << 10), _PLAIN), _budget(_launch(1 << 20), _PLAIN)
    assert (small.kernel_bytes, large.kernel_bytes) == (1 << 13, 1 << 23)
    grown = large.state_bytes - small.state_bytes
    assert grown == 2 * (large.kernel_bytes - small.kernel_bytes)
    assert large.ratio == large.state_bytes / (1 << 23)


@pytest.mark.parametrize(("shadow", "races"), [(True, False), (False, True), (True, True)])
def test_what_is_looked_for_costs_more(shadow: bool, races: bool) -> None:
    launch = _launch(1 << 20)
    options = dataclasses.replace(_PLAIN, shadow=shadow, races=races)
    assert _budget(launch, options).state_bytes > _budget(launch, _PLAIN).state_bytes


def test_a_buffer_that_two_arguments_name_counts_once() -> None:
    one = Pointer(buffer=buffer_of(np.zeros(1 << 10, np.uint32)))
    launch = dataclasses.replace(_launch(1), arguments=(one, one))
    assert _budget(launch, _PLAIN).kernel_bytes == 1 << 12


def test_a_launch_that_needs_more_than_is_allowed_names_both_numbers() -> None:
    launch = _launch(1 << 16)
    code = generate(_PROGRAM, _PLAIN)
    need = budget.of(_PROGRAM, code, launch, _PLAIN).state_bytes
    enough = dataclasses.replace(_PLAIN, memory_bytes=need)
    budget.demand(_PROGRAM, code, launch, enough)
    less = dataclasses.replace(_PLAIN, memory_bytes=need - 1)
    with pytest.raises(MachineError, match=rf"needs {need} bytes of state, {need - 1} are allowed"):
        budget.demand(_PROGRAM, code, launch, less)


def test_more_threads_than_have_numbers_are_refused() -> None:
    launch = _launch(8, grid=1 << 20, block=1024)
    with pytest.raises(MachineError, match=f"over {1 << 30} threads: the machine runs"):
        budget.demand(_PROGRAM, generate(_PROGRAM, _PLAIN), launch, _PLAIN)

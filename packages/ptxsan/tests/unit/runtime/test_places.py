"""Tables of pointers hold the process's own addresses; data that looks like one stays data."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.findings import Kind
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_support.ptx import kernel

_AT = 0x3B2C_4D00  # where a heap may lie: two small bfloat16 numbers behind two zeros, as data


def _launch(table: Buffer, out: Buffer, *others: Buffer) -> Launch:
    pointers = (Pointer(buffer=table), Pointer(buffer=out))
    return Launch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1), arguments=pointers, buffers=others)


def _buffer(name: str, words: list[int], address: int = 0) -> Buffer:
    return Buffer(name=name, data=np.array(words, np.uint64).view(np.uint8), address=address)


@pytest.mark.parametrize(("inside", "expected"), [(0, 11), (8, 12)])
def test_an_address_in_a_table_leads_to_its_buffer(inside: int, expected: int) -> None:
    target = _buffer("target", [11, 12], _AT)
    table, out = _buffer("table", [_AT + inside]), _buffer("out", [0])
    text = kernel(
        "ld.global.u64 %rd3, [%rd1]; ld.global.u64 %rd4, [%rd3]; st.global.u64 [%rd2], %rd4;"
    )
    report = run(parse(text), _launch(table, out, target))
    assert not report.findings
    assert out.data.view(np.uint64)[0] == expected
    assert table.data.view(np.uint64)[0] == _AT + inside


def test_data_that_looks_like_an_address_is_read_as_it_is() -> None:
    target = _buffer("target", [11, 12], _AT)
    table, out = _buffer("data", [_AT]), _buffer("out", [0])
    text = kernel("ld.global.u64 %rd3, [%rd1]; add.u64 %rd3, %rd3, 1; st.global.u64 [%rd2], %rd3;")
    assert not run(parse(text), _launch(table, out, target)).findings
    assert out.data.view(np.uint64)[0] == _AT + 1


@pytest.mark.parametrize("address", [_AT + 16, _AT - 8, 0, _AT + (1 << 45)])
def test_an_address_of_nothing_is_a_finding(address: int) -> None:
    target = _buffer("target", [11, 12], _AT)
    table, out = _buffer("table", [address]), _buffer("out", [0])
    text = kernel(
        "ld.global.u64 %rd3, [%rd1]; ld.global.u64 %rd4, [%rd3]; st.global.u64 [%rd2], %rd4;"
    )
    (finding,) = run(parse(text), _launch(table, out, target)).findings
    assert finding.kind is Kind.OUT_OF_BOUNDS
    assert ("target" in finding.text) == (address == _AT + 16)


def test_memory_that_is_gone_is_named_where_a_table_still_leads_to_it() -> None:
    gone = Buffer(name="target, freed", data=np.zeros(0, np.uint8), address=_AT)
    table, out = _buffer("table", [_AT + 8]), _buffer("out", [0])
    text = kernel(
        "ld.global.u64 %rd3, [%rd1]; ld.global.u64 %rd4, [%rd3]; st.global.u64 [%rd2], %rd4;"
    )
    (finding,) = run(parse(text), _launch(table, out, gone)).findings
    assert "target, freed" in finding.text


@pytest.mark.parametrize(("declared", "is_number"), [(".ptr .global .align 16", True), ("", False)])
def test_a_number_as_large_as_an_address_is_a_number_where_pointers_are_declared(
    declared: str, is_number: bool
) -> None:
    """As Triton declares them; NVRTC says of no parameter what it is."""
    target, out = _buffer("target", [11, 12], _AT), _buffer("out", [0])
    text = (
        f".version 8.0\n.target sm_80\n.address_size 64\n"
        f".visible .entry k(.param .u64 n, .param .u64 {declared} out) {{ .reg .b64 %rd<4>;"
        "ld.param.u64 %rd1, [n]; ld.param.u64 %rd2, [out]; st.global.u64 [%rd2], %rd1; ret; }"
    )
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(1, 1, 1), buffers=(target,),
        arguments=(Pointer(buffer=target, offset=8), Pointer(buffer=out)),
    )  # fmt: skip
    assert not run(parse(text), launch).findings
    assert (out.data.view(np.uint64)[0] == _AT + 8) == is_number

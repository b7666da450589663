"""Findings about tensor memory in words: each kind names its place and the manual."""

from __future__ import annotations

import dataclasses

import pytest

from ptxsan import tensor_findings as T
from ptxsan.findings import Access, Severity
from ptxsan.record import Record
from ptxsan.runtime import layout as L
from ptxsan.runtime import tensor_memory as M
from ptxsan.runtime import tensor_products as P

_ACCESS = Access(
    what="tcgen05.ld", ptx_line=4, source_file=None, source_line=None, block=(0, 0, 0),
    thread=(5, 0, 0),
)  # fmt: skip


def _said(kind: int, *, address: int = 0, extra: int = 0) -> tuple[Severity, str]:
    record = dataclasses.replace(Record(*[0] * 15), kind=kind, address=address, extra=extra)
    partner = dataclasses.replace(_ACCESS, what="tcgen05.st", ptx_line=9)
    _, severity, text = T.describe(record, (_ACCESS, partner))
    return severity, text


@pytest.mark.parametrize("kind", sorted(T.KINDS))
def test_every_kind_says_who_and_that_the_manual_says_it(kind: int) -> None:
    extra = (
        M.BAD_COUNT if kind == L.K_TENSOR_ALLOC else P.BAD_ROWS if kind == L.K_TENSOR_SHAPE else 0
    )
    _, text = _said(kind, extra=extra)
    assert text.startswith("tcgen05.ld by thread (5, 0, 0) of block (0, 0, 0) ")
    assert text.endswith("(by the PTX manual; no GPU has confirmed it)")


def test_lanes_and_columns_are_taken_from_the_packed_address() -> None:
    severity, text = _said(L.K_TENSOR_RACE, address=17 << 16 | 40, extra=1 | 4)
    assert severity is Severity.WRONG
    assert "overwrites lane 17, column 40 of tensor memory" in text
    assert "nothing orders it after tcgen05.st by thread (5, 0, 0)" in text
    assert "its warp has not waited (tcgen05.wait::ld)" in text
    _, text = _said(L.K_TENSOR_RACE, address=17 << 16 | 40, extra=2)
    assert "reads lane 17" in text
    assert "has not waited" not in text
    _, text = _said(L.K_TENSOR_LANES, address=70, extra=1)
    assert "addresses lane 70" in text
    assert "lanes 32 to 63" in text


def test_a_missing_fence_or_wait_is_a_note() -> None:
    for kind in (L.K_TENSOR_FENCE, L.K_TENSOR_WAIT):
        assert _said(kind)[0] is Severity.NOTE


def test_every_reason_of_an_allocation_and_of_a_shape_has_words() -> None:
    for reason in T._ALLOCATIONS:
        assert "{" not in _said(L.K_TENSOR_ALLOC, address=33, extra=reason)[1]
    for reason in T._SHAPES:
        assert "{" not in _said(L.K_TENSOR_SHAPE, address=33, extra=reason)[1]

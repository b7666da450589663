"""Kernels with tensor memory: right ones are right and clean, planted faults are found."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.findings import Kind, Severity
from ptxsan_corpus import tensor_kernels as K

pytest.importorskip("numba")
_DEPTHS = {"product": 16, "steps": 32, "stored": 16, "reused": 16, "shifted": 16}


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
@pytest.mark.parametrize("twin", sorted(K.TWINS))
def test_a_right_kernel_is_right_and_clean(twin: str, schedule: str) -> None:
    a, b = K.inputs(1, _DEPTHS[twin])
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    shifted = np.zeros((K.ROWS, K.COLUMNS), np.float32)
    rows = np.arange(K.ROWS) + (np.arange(K.ROWS) % 32 < 31)  # of each warp the last one stays
    shifted[:, :8] = np.arange(8 * K.ROWS).reshape(K.ROWS, 8)[rows]
    others = {"stored": expected + 2, "reused": 2 * expected, "shifted": shifted}
    expected = others.get(twin, expected)
    report, buffers = K.execute(
        K.TWINS[twin], (a, b, np.zeros((K.ROWS, K.COLUMNS), np.float32)), schedule=schedule
    )
    assert report.inconclusive is None
    assert report.findings == ()
    np.testing.assert_array_equal(
        buffers[2].data.view(np.float32).reshape(expected.shape), expected
    )


@pytest.mark.parametrize("fault", K.PLANTED, ids=lambda one: one.name)
def test_a_planted_fault_is_found(fault: K.Planted) -> None:
    a, b = K.inputs(2, _DEPTHS[fault.twin])
    report, _ = K.execute(fault.text, (a, b, np.zeros((K.ROWS, K.COLUMNS), np.float32)))
    found = [one for one in report.findings if one.severity is Severity(fault.severity)]
    assert {one.kind for one in found} & set(fault.kinds), [one.text for one in report.findings]
    if fault.severity == "note":
        assert report.wrong == ()


def test_what_follows_the_manual_alone_says_so() -> None:
    fault = next(one for one in K.PLANTED if one.name == "released_under_a_load_in_flight")
    a, b = K.inputs(3)
    report, _ = K.execute(fault.text, (a, b, np.zeros((K.ROWS, K.COLUMNS), np.float32)))
    races = [one for one in report.wrong if one.kind is Kind.RACE]
    assert races
    assert all("by the PTX manual" in one.text for one in races)
    assert races[0].text.startswith("tcgen05.dealloc")
    assert "its warp has not waited (tcgen05.wait::ld)" in races[0].text


@pytest.mark.parametrize("fault", ["load_not_waited_for", "load_used_before_its_wait"])
def test_registers_that_are_read_before_a_wait_hold_what_was_loaded(fault: str) -> None:
    text = next(one.text for one in K.PLANTED if one.name == fault)
    a, b = K.inputs(5)
    report, buffers = K.execute(text, (a, b, np.zeros((K.ROWS, K.COLUMNS), np.float32)))
    assert report.wrong == ()
    assert "add tcgen05.wait::ld" in report.findings[0].text
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    found = buffers[2].data.view(np.float32).reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_an_address_in_the_first_warps_lanes_means_those_of_the_warp_itself() -> None:
    text = next(one.text for one in K.PLANTED if one.name == "lanes_of_the_first_warp")
    a, b = K.inputs(5)
    report, buffers = K.execute(text, (a, b, np.zeros((K.ROWS, K.COLUMNS), np.float32)))
    assert report.wrong == ()
    assert "which a B200 took" in report.findings[0].text
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    found = buffers[2].data.view(np.float32).reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)


_COMMIT = next(one for one in K.PRODUCT.splitlines() if "tcgen05.commit" in one)
_ENDED = (
    f"bar.sync 0;\n{_COMMIT}\n{{waited}}bar.sync 0;\n@%p2 mbarrier.inval.shared::cta.b64 [bar];\n"
)


@pytest.mark.parametrize(
    ("waited", "behind", "wrong", "notes"),
    [
        (K.waits("1", "late"), "@%p2 mbarrier.init.shared::cta.b64 [bar], 1;\n", (), ()),
        ("", "", (), (Kind.MBARRIER,)),
        ("", "@%p2 mbarrier.init.shared::cta.b64 [bar], 1;\n", (Kind.RACE,), (Kind.MBARRIER,)),
        ("", "@%p2 st.shared.b32 [bar], 0;\n", (Kind.RACE,), (Kind.MBARRIER,)),
    ],
)
def test_an_mbarrier_ends_before_a_commit_arrives(
    waited: str, behind: str, wrong: tuple[Kind, ...], notes: tuple[Kind, ...]
) -> None:
    start, end = K.PRODUCT.rsplit("bar.sync 0;", 1)
    text = f"{start}{_ENDED.format(waited=waited)}{behind}bar.sync 0;{end}"
    a, b = K.inputs(6)
    report, _ = K.execute(text, (a, b, np.zeros((K.ROWS, K.COLUMNS), np.float32)))
    assert report.inconclusive is None
    assert tuple(one.kind for one in report.wrong) == wrong
    noted = (one.kind for one in report.findings if one.severity is Severity.NOTE)
    assert tuple(noted) == notes


def test_numbers_alone_are_the_same() -> None:
    a, b = K.inputs(4)
    arrays = (a, b, np.zeros((K.ROWS, K.COLUMNS), np.float32))
    report, buffers = K.execute(K.PRODUCT, arrays, races=False)
    assert (report.inconclusive, report.findings) == (None, ())
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(
        buffers[2].data.view(np.float32).reshape(expected.shape), expected
    )

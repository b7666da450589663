"""The corpus in the machine: a part of it here, all of it in benchmarks/machine_power.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsan import home, nvrtc
from ptxsan.findings import Kind, Severity
from ptxsan_corpus.corpus import FAULTS, KERNELS, PRECISION_FAULTS, planted, ptx
from ptxsan_corpus.running import executed, expected_kinds

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="libnvrtc is not installed")
# One kernel of each family, and one fault of each class and place.
CLEAN = (
    "saxpy_float32", "grid_stride_scale", "float4_copy_with_tail", "bit_tricks",
    "local_histogram_of_digits", "rmsnorm_float32_300", "softmax_float32_33", "last_block_sum",
    "warp_tail_with_syncwarp", "redux_votes_and_match", "matmul_tiled_float32_40x33x50",
    "cp_async_double_buffer", "transpose_tiles", "split_k_last_block", "attention_online_softmax",
    "scan_decoupled_look_back", "histogram_shared_privatised", "producer_consumer_named_barriers",
    "grid_barrier_by_counter", "early_exit_before_barrier", "device_variable_and_constant",
)  # fmt: skip
FOUND = (
    "saxpy_reads_one_past", "tree_reads_past_shared", "local_index_past_end",
    "overrun_into_next_shared_array", "float4_at_odd_element", "output_read_back",
    "tile_tail_unwritten", "cp_async_wait_off_by_one", "index_wraps_in_32_bits",
    "tile_overwritten_early", "warp_tail_without_syncwarp", "embedding_plain_add",
    "last_block_without_fence", "barrier_in_half_a_warp", "in_place_neighbour",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let kernels be compiled anew, but not the machine's runtime: that takes half a minute."""
    monkeypatch.setenv("PTXSAN_RUNTIME", str(home.runtime_dir()))
    folder: Path = tmp_path_factory.getbasetemp() / "machine-home"
    monkeypatch.setenv("PTXSAN_CACHE", str(folder))


@pytest.mark.parametrize("name", CLEAN)
def test_a_correct_kernel_is_clean_and_right(name: str) -> None:
    outcome = executed(KERNELS[name])
    assert outcome.refused == ""
    early = name == "early_exit_before_barrier"  # right by PTX, and not by CUDA C++: a note
    assert outcome.kinds == (frozenset({Kind.ENDED_BEFORE}) if early else frozenset())
    assert outcome.mistakes == ()


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_fault_is_found_with_its_line(name: str) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    outcome = executed(planted(fault))
    assert outcome.kinds & expected_kinds(fault), outcome.texts
    wrong = [f for report in outcome.reports for f in report.findings
             if f.severity is Severity.WRONG and f.kind in expected_kinds(fault)]  # fmt: skip
    assert any(access.source_line for finding in wrong for access in finding.accesses)


def test_the_tables_are_whole() -> None:
    names = [*KERNELS, *(fault.name for fault in (*FAULTS, *PRECISION_FAULTS))]
    assert len(names) == len(set(names))
    assert len(KERNELS) >= 90
    assert len(FAULTS) >= 60
    assert len(PRECISION_FAULTS) >= 20
    for fault in (*FAULTS, *PRECISION_FAULTS):
        twin, kernel = KERNELS[fault.twin], planted(fault)
        if not fault.changes:
            assert kernel.source != twin.source


def test_an_edit_that_changes_nothing_compiled_would_be_no_fault() -> None:
    for fault in FAULTS[:10]:
        if not fault.changes:
            twin = KERNELS[fault.twin]
            assert ptx(planted(fault).text(), twin.arch) != ptx(twin.text(), twin.arch)

"""Kernels for sm_90 of the corpus: right and clean; a planted fault of every class is found."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ptxsan import home, nvrtc
from ptxsan_corpus import cuda_clusters, cuda_hopper, cuda_tensors, faults_hopper
from ptxsan_corpus.case import Fault, Kernel
from ptxsan_corpus.corpus import planted
from ptxsan_corpus.running import executed, expected_kinds

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="libnvrtc is not installed")
_SLOW = ("cuda_barrier_memcpy_async", "library_barrier_not_waited_for")  # long headers
_TABLES = (*cuda_hopper.KERNELS, *cuda_clusters.KERNELS, *cuda_tensors.KERNELS)
_KERNELS = [one for one in _TABLES if one.name not in _SLOW]
_NAMES = (
    "pipeline_empty_parity_wrong",
    "bulk_rearmed_by_nobody",
    "pipeline_refill_without_wait",
    "pipeline_released_before_last_read",
    "bulk_store_source_overwritten",
    "mbarrier_invalidated_too_early",
    "bulk_reduce_fence_before_write",
    "cluster_bins_cleared_late",
    "cluster_ends_before_it_is_read",
    "across_into_unready_block",
    "tile_expects_the_valid_part_only",
    "tile_map_larger_than_its_buffer",
    "tile_misaligned_in_shared",
    "tile_stored_by_two_warps",
)
_FAULTS = [one for one in faults_hopper.FAULTS if one.name in _NAMES]


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let kernels be compiled anew, but not the machine's runtime: that takes half a minute."""
    monkeypatch.setenv("PTXSAN_RUNTIME", str(home.runtime_dir()))
    folder: Path = tmp_path_factory.getbasetemp() / "machine-home"
    monkeypatch.setenv("PTXSAN_CACHE", str(folder))


@pytest.mark.parametrize("kernel", _KERNELS, ids=lambda one: one.name)
def test_a_correct_kernel_is_right_and_clean(kernel: Kernel) -> None:
    outcome = executed(kernel)
    assert outcome.refused == ""
    assert outcome.found == frozenset(), outcome.texts
    assert outcome.mistakes == ()


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda one: one.name)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    outcome = executed(planted(fault))
    assert outcome.kinds & expected_kinds(fault), outcome.texts


def test_the_lanes_of_a_warp_may_all_ask_for_one_store() -> None:
    old = "if (t == 0) {\n        tile_store(&out, y, x, r);"
    source = cuda_tensors.TRANSPOSE.source
    assert old in source
    new = "if (t < 32) {\n        tile_store(&out, y, x, r); __syncwarp();"
    several = source.replace(old, new)
    outcome = executed(dataclasses.replace(cuda_tensors.TRANSPOSE, source=several))
    assert outcome.refused == ""
    assert outcome.found == frozenset(), outcome.texts
    assert outcome.mistakes == ()

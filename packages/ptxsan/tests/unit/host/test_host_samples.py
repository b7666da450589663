"""Small whole programs as CUDA's samples are: right ones are clean, each with a fault is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvrtc")
from ptxsan.findings import Kind
from ptxsan.host.program import build_program, run_built
from ptxsan_support.thorough import one_in

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
    pytest.mark.usefixtures("forked_programs"),
]

_SAMPLES = Path(__file__).parents[2] / "data" / "host" / "samples"
_FAULTS = {
    "async_api": Kind.STREAM_RACE,
    "concurrent_kernels": Kind.STREAM_RACE,
    "constant_filter": Kind.STREAM_RACE,
    "cooperative_reduction": Kind.TRAP,
    "dependent_launch": Kind.STREAM_RACE,
    "graph_capture": Kind.STREAM_RACE,
    "graph_copies": Kind.STREAM_RACE,
    "group_scan": Kind.REFUSED_LAUNCH,
    "histogram": Kind.UNINITIALISED,
    "host_callbacks": Kind.STREAM_RACE,
    "large_shared": Kind.REFUSED_LAUNCH,
    "managed_reduction": Kind.STREAM_RACE,
    "managed_variables": Kind.OUT_OF_BOUNDS,
    "matrix_pitch": Kind.UNWRITTEN_COPY,
    "multi_copy": Kind.STREAM_RACE,
    "ordered_allocation": Kind.STREAM_RACE,
    "persistent_worker": Kind.DEADLOCK,
    "pitched_blur": Kind.UNINITIALISED,
    "producer_consumer": Kind.DEADLOCK,
    "reduction": Kind.REFUSED_LAUNCH,
    "ring_pipeline": Kind.STREAM_RACE,
    "scan": Kind.FREED,
    "simple_streams": Kind.STREAM_RACE,
    "unified_memory": Kind.STREAM_RACE,
    "vector_add": Kind.UNWRITTEN_COPY,
    "zero_copy": Kind.STREAM_RACE,
}


def test_every_sample_has_its_fault() -> None:
    assert sorted(file.stem for file in _SAMPLES.glob("*.cu")) == sorted(_FAULTS)


@pytest.mark.parametrize("name", one_in(3, sorted(_FAULTS)))
def test_a_right_sample_is_clean_and_its_fault_is_found(name: str, tmp_path: Path) -> None:
    file = _SAMPLES / f"{name}.cu"
    linked = build_program([file], tmp_path)
    right = run_built(linked, file)
    assert (right.output, right.status) == ("ok\n", 0)
    assert not right.host
    assert not right.wrong
    assert not right.not_covered
    wrong = run_built(linked, file, ["faulty"])
    assert _FAULTS[name] in {one.kind for one in wrong.wrong}

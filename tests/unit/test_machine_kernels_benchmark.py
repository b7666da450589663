"""The comparison of the corpus with a GPU: what is compared by place, and what as a set."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("numba")

from ptxsan_corpus.corpus import KERNELS, prepare
from tests.support.benchmark_modules import loaded


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "machine_kernels_gpu", "common")


def test_values_in_order_of_arrival_are_compared_as_a_set(benchmark: ModuleType) -> None:
    prepared = prepare(KERNELS["ballot_compaction"], 3)
    data = [one.data.copy() for one in prepared.buffers.values()]
    values = data[list(prepared.buffers).index("y")].view(np.float32)
    values[:4] = [3.0, -1.0, 2.0, 5.0]
    first = benchmark._kept("ballot_compaction", prepared, data)
    values[:4] = [2.0, 5.0, 3.0, -1.0]  # the other warp came first
    assert benchmark._kept("ballot_compaction", prepared, data) == first
    assert benchmark._kept("warp_sum", prepared, data) != first
    values[3] = -2.0
    found = benchmark._kept("ballot_compaction", prepared, data)
    row = benchmark.compared("ballot_compaction", [first, first], [first, found])
    assert (row["identical_launches"], row["good"]) == (1, False)


def test_only_buffers_of_the_corpus_are_named(benchmark: ModuleType) -> None:
    for table in (benchmark.ARRIVAL, benchmark.ADDRESSES):
        for name, buffers in table.items():
            assert buffers <= set(prepare(KERNELS[name], 0).buffers)

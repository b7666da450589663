"""Tensors through shared memory: from the judge to a worker, and back."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from cuassay.model.device import CPU
from cuassay.sandbox.guest.transport import ALIGNMENT, WorkerTransport, aligned_offsets, nbytes


@pytest.fixture
def memory() -> Iterator[int]:
    fd = os.memfd_create("segment", os.MFD_CLOEXEC)
    yield fd
    os.close(fd)


def test_blocks_are_aligned_and_do_not_overlap() -> None:
    sizes = [1, ALIGNMENT, ALIGNMENT + 1, 0, 5]
    offsets, end = aligned_offsets(sizes)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
    assert all(one <= after for one, after in zip(ends, [*offsets[1:], end], strict=True))
    assert aligned_offsets([]) == ([], 0)


def test_what_a_worker_writes_it_also_reads(memory: int) -> None:
    x, y = torch.arange(6.0).reshape(2, 3), torch.tensor([1, -2], dtype=torch.int8)
    sizes = [nbytes("float32", x.shape), nbytes("int8", y.shape)]
    offsets, end = aligned_offsets(sizes)
    os.ftruncate(memory, end)
    transport = WorkerTransport(CPU)
    transport.write({"kind": "memfd", "offsets": offsets}, (memory,), [x, y])
    given = transport.open(
        {
            "kind": "memfd",
            "layout": [
                {"name": "x", "dtype": "float32", "shape": [2, 3], "offset": offsets[0]},
                {"name": "eps", "scalar": 0.5},
            ],
            "answers": [{"name": "y", "dtype": "int8", "shape": [2], "offset": offsets[1]}],
        },
        (memory,),
    )
    assert given.inputs is not None
    assert torch.equal(torch.as_tensor(given.inputs["x"]), x)
    assert given.inputs["eps"] == 0.5
    assert torch.equal(given.answers[0], y)
    assert given.owned  # it was read into memory of the worker's own


def test_what_is_copied_to_be_written_lives_until_it_is_written(memory: int) -> None:
    """A conjugate is evaluated into a tensor of its own, as a GPU's comes to the host."""
    x = torch.complex(torch.arange(1000.0), torch.arange(1000.0))
    os.ftruncate(memory, nbytes("complex64", x.shape))
    WorkerTransport(CPU).write({"kind": "memfd", "offsets": [0]}, (memory,), [x.conj()])
    found = torch.frombuffer(bytearray(os.pread(memory, 8000, 0)), dtype=torch.complex64)
    assert torch.equal(found, x.conj().resolve_conj())


def test_a_segment_that_ends_early_is_no_tensor_of_zeros(memory: int) -> None:
    os.ftruncate(memory, 8)
    layout = [{"name": "x", "dtype": "float32", "shape": [4], "offset": 0}]
    with pytest.raises(EOFError, match="8 bytes before 'x'"):
        WorkerTransport(CPU).open({"kind": "memfd", "layout": layout}, (memory,))


def test_a_step_without_data_gets_nothing() -> None:
    assert WorkerTransport(CPU).open(None, ()).inputs is None

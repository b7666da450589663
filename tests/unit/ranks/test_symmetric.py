"""Symmetric memory of ranks on a CPU: shared at once, with barriers and signals of the group."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

from cuassay.build.cuda_facade import cuda_facade
from cuassay.catalog import registry
from cuassay.model.candidate import Candidate
from cuassay.model.device import CPU
from cuassay.model.trace import Claim
from cuassay.sandbox.guest.interface import RankRaisedError, RanksStuckError
from cuassay.sandbox.guest.ranks.messages import Packed, pack, unpack
from cuassay.sandbox.guest.ranks.start import Recipe
from cuassay.sandbox.guest.ranks.world import Timing, World

RECIPE = Recipe(
    candidate=Candidate(name="", sources=(), entry_file="", entry_function=""),
    builder="",
    folder=Path(),
)
Call = Callable[[Callable[[torch.Tensor], torch.Tensor]], list[list[float]]]


@pytest.fixture
def called() -> Iterator[Call]:
    """Return what calls a function on two ranks, of which rank r is given r + 1 three times."""
    worlds: list[World] = []

    def call(function: Callable[[torch.Tensor], torch.Tensor]) -> list[list[float]]:
        problem = registry.get("all_reduce")
        world = World(2, 1, function=function, problem=problem, recipe=RECIPE, device=CPU)
        worlds.append(world)
        told = [[[pack(torch.full((3,), rank + 1.0))]] for rank in range(2)]
        found = []
        for held in world.run(told, Timing()):  # type: ignore[arg-type]
            sent = held.returned[0][0][1]
            assert isinstance(sent, Packed)
            found.append(torch.as_tensor(unpack(sent)).tolist())
        return found

    yield call
    for one in worlds:
        one.close()


def _opened(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
    buffer = symmetric.empty(x.shape, dtype=x.dtype, device=x.device)
    group: Any = dist.group.WORLD
    return buffer, symmetric.rendezvous(buffer, group)


def test_a_rank_reads_what_another_one_signals(called: Call) -> None:
    def passes_on(x: torch.Tensor) -> torch.Tensor:
        buffer, memory = _opened(x)
        other = 1 - memory.rank
        memory.get_buffer(other, x.shape, x.dtype).copy_(x)
        memory.put_signal(other)
        memory.wait_signal(other)
        return buffer.clone()

    assert called(passes_on) == [[2.0] * 3, [1.0] * 3]


def test_signals_and_parts_are_memory_of_their_own(called: Call) -> None:
    def flags(x: torch.Tensor) -> torch.Tensor:
        buffer, memory = _opened(x)
        buffer.copy_(x)
        pad = memory.get_signal_pad(1 - memory.rank, (2,), torch.int32)
        assert pad.tolist() == [0, 0]
        pad[memory.rank] = 7
        memory.barrier()
        own = memory.get_signal_pad(memory.rank, (2,), torch.int32)
        tail = memory.get_buffer(1 - memory.rank, (2,), x.dtype, storage_offset=1)
        return torch.cat([own.float(), tail])

    assert called(flags) == [[0.0, 7.0, 2.0, 2.0], [7.0, 0.0, 1.0, 1.0]]


def test_a_signal_that_nobody_sends_is_waited_for_with_its_rank(called: Call) -> None:
    def waits(x: torch.Tensor) -> torch.Tensor:
        _, memory = _opened(x)
        if memory.rank == 0:
            memory.wait_signal(1)
        return x

    with pytest.raises(RanksStuckError, match=r"rank 0 waits in recv .* for rank 1"):
        called(waits)


def test_what_is_beyond_the_memory_is_refused(called: Call) -> None:
    def beyond(x: torch.Tensor) -> torch.Tensor:
        part: torch.Tensor = _opened(x)[1].get_buffer(0, (64,), x.dtype)
        return part

    with pytest.raises(RankRaisedError, match="64 elements from element 0 on reach beyond the 4"):
        called(beyond)


def test_a_tensor_that_is_no_symmetric_memory_has_no_way_to_the_others(called: Call) -> None:
    def told(x: torch.Tensor) -> torch.Tensor:
        group: Any = dist.group.WORLD
        buffer, _ = _opened(x)
        assert symmetric.rendezvous(x, group) is None
        return torch.tensor([float(symmetric.is_symm_mem_tensor(one)) for one in (x, buffer)])

    assert called(told) == [[0.0, 1.0]] * 2


def test_a_second_rendezvous_waits_for_nobody(called: Call) -> None:
    def again(x: torch.Tensor) -> torch.Tensor:
        group: Any = dist.group.WORLD
        buffer, memory = _opened(x)
        if memory.rank == 0:
            assert symmetric.rendezvous(buffer, group) is memory
        return x

    assert called(again) == [[1.0] * 3, [2.0] * 3]


def test_tables_hold_the_addresses_that_a_kernel_reads(called: Call) -> None:
    def read(x: torch.Tensor) -> torch.Tensor:
        buffer, memory = _opened(x)
        buffer.copy_(x)
        memory.barrier()
        table = (ctypes.c_int64 * memory.world_size).from_address(memory.buffer_ptrs_dev)
        found = [ctypes.c_float.from_address(address).value for address in table]
        pads = (ctypes.c_int64 * memory.world_size).from_address(memory.signal_pad_ptrs_dev)
        assert list(pads) == memory.signal_pad_ptrs
        memory.barrier()
        return torch.tensor(found)

    assert called(read) == [[1.0, 2.0]] * 2


def test_a_workspace_of_a_group_grows_and_is_kept(called: Call) -> None:
    def works(x: torch.Tensor) -> torch.Tensor:
        name = dist.group.WORLD.group_name  # type: ignore[union-attr]
        first = symmetric.get_symm_mem_workspace(name, 16)
        assert symmetric.get_symm_mem_workspace(name, 8) is first
        larger = symmetric.get_symm_mem_workspace(name, 4096)
        assert larger is not first
        larger.get_buffer(larger.rank, x.shape, x.dtype).copy_(x)
        larger.barrier()
        return larger.get_buffer(1 - larger.rank, x.shape, x.dtype).clone()

    assert called(works) == [[2.0] * 3, [1.0] * 3]


def test_words_are_written_by_torchs_own_name(called: Call) -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        symmetric.set_signal_pad_size(4096)
        _, memory = _opened(x)
        pad = memory.get_signal_pad(memory.rank)
        assert pad.numel() == 1024
        names: Any = vars(symmetric)["_SymmetricMemory"]
        names.memset32(pad, 2, 7, 2)
        names.stream_write_value32(pad, 0, 5)
        words: torch.Tensor = pad[:5].view(torch.int32).float()
        return words

    assert called(writes) == [[5.0, 0.0, 7.0, 7.0, 0.0]] * 2


def test_what_a_kernel_for_a_gpu_asks_for_is_memory_of_the_cpu(called: Call) -> None:
    def on_cuda(x: torch.Tensor) -> torch.Tensor:
        with cuda_facade():
            buffer = symmetric.empty(x.shape, dtype=x.dtype, device=torch.device("cuda"))
            group: Any = dist.group.WORLD
            memory = symmetric.rendezvous(buffer, group)
            buffer.copy_(x)
            memory.barrier()
            total = torch.zeros_like(x)
            for rank in range(memory.world_size):
                total += memory.get_buffer(rank, x.shape, x.dtype)
            return total

    assert called(on_cuda) == [[3.0] * 3] * 2


def test_another_backend_is_not_judged(called: Call) -> None:
    def by_nvshmem(x: torch.Tensor) -> torch.Tensor:
        torch.ops.symm_mem.nvshmem_broadcast(x, 0, "0")
        return x

    def by_nccl(x: torch.Tensor) -> torch.Tensor:
        symmetric.set_backend("NCCL")
        return x

    for function, what in (
        (by_nvshmem, "torch.ops.symm_mem.nvshmem_broadcast"),
        (by_nccl, "symmetric memory of the backend NCCL"),
    ):
        with pytest.raises(RankRaisedError, match=what) as error:
            called(function)
        assert error.value.record.claim is Claim.NO_TOOL

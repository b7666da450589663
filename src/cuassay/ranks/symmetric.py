"""Symmetric memory for ranks without a GPU each: every rank's part is memory that all of them map.

torch's own needs a GPU for each rank. Here `torch.distributed._symmetric_memory` calls this in its
place: on a CPU a part is a file, on a GPU that ranks share a handle of CUDA IPC. Barriers and
signals are collectives of the group, so that who waits for whom is known. Flags that kernels on a
GPU keep in the signal pads are theirs alone.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed import _symmetric_memory as symmetric

from cuassay.errors import MissingToolError
from cuassay.model.ranks import other_way

_SIGNALS = 1 << 20  # tags of signals begin here
_ALIGNED_BYTES = 16
Told = tuple[Any, ...]  # what another rank needs to map a part


class SharedMemory:
    """What torch calls for symmetric memory, with the names and signatures of its own class."""

    def __init__(
        self, folder: Path, *, on_gpu: bool, met: Callable[[], None] = lambda: None
    ) -> None:
        self.signal_pad_size = 2048  # bytes behind each part, as torch has them
        # A kernel that is written for a GPU says "cuda" on a CPU, too.
        self._folder, self._on_gpu, self._when_met = folder, on_gpu, met
        self._numbers = itertools.count()
        self._told: dict[int, tuple[torch.Tensor, Told, str | None]] = {}
        self._met: dict[tuple[int, str], Memory] = {}

    def empty_strided_p2p(
        self,
        size: Sequence[int],
        stride: Sequence[int],
        dtype: torch.dtype,
        device: object,
        group_name: str | None = None,
        alloc_id: int | None = None,
    ) -> torch.Tensor:
        """Return a tensor whose memory other ranks can map."""
        nbytes = prod(size) * dtype.itemsize
        total = -(-nbytes // _ALIGNED_BYTES) * _ALIGNED_BYTES + self.signal_pad_size
        told: Told
        if self._on_gpu:
            place = torch.device(device)  # type: ignore[call-overload]
            whole = torch.empty(total, dtype=torch.uint8, device=place)
            whole[-self.signal_pad_size :] = 0
            torch.cuda.synchronize(place)
            # Nothing is in flight, so that nobody has to wait for the event that comes last.
            handle = whole.untyped_storage()._share_cuda_()  # type: ignore[no-untyped-call]
            told = (total, *handle[1:-1])
        else:
            file = self._folder / f"symmetric-{os.getpid()}-{next(self._numbers)}"
            whole = _mapped(file, total)
            whole[-self.signal_pad_size :] = 0
            told = total, file
        self._told[_begins(whole)] = whole, (*told, self.signal_pad_size), group_name
        return whole[:nbytes].view(dtype).as_strided(size, stride)

    def rendezvous(self, tensor: torch.Tensor, group_name: str | None = None) -> Memory | None:
        """Return the way to the memory of all ranks of a group, each of which calls this.

        None for a tensor that is no symmetric memory. A second call for the same memory and group
        returns what the first one did, without meeting the others.
        """
        held = self._told.get(_begins(tensor))
        if held is None:
            return None
        whole, told, allocated_for = held
        name = group_name or allocated_for or dist.group.WORLD.group_name  # type: ignore[union-attr]
        place = _begins(tensor), name
        if place not in self._met:
            group = _resolve_process_group(name)  # type: ignore[arg-type]
            others: list[Any] = [None] * group.size()
            dist.all_gather_object(others, told, group=group)
            parts = [
                whole if rank == group.rank() else self._opened(one, whole.device)
                for rank, one in enumerate(others)
            ]
            self._met[place] = Memory(group, parts, pad_bytes=told[-1])
            self._when_met()
        return self._met[place]

    def is_symm_mem_tensor(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is symmetric memory."""
        return _begins(tensor) in self._told

    def set_group_info(self, *_: object) -> None:
        """Take what torch tells of a group: its ranks are known."""

    def has_multicast_support(self, *_: object) -> bool:
        """Whether stores can reach all parts at once: never here."""
        return False

    def set_backend(self, name: str) -> None:
        """Take the name of a backend. Raises MissingToolError for one that this is not."""
        if name != self.get_backend(None):
            raise MissingToolError(other_way(f"symmetric memory of the backend {name}"))

    def get_backend(self, device: object) -> str:
        """Return the name of torch's backend that this stands for."""
        return "CUDA"

    def memset32(self, tensor: torch.Tensor, offset: int, val: int, count: int = 1) -> torch.Tensor:
        """Write a value into words of 32 bits, from an offset in words."""
        tensor.view(torch.int32).view(-1)[offset : offset + count] = val
        return tensor

    def stream_write_value32(self, tensor: torch.Tensor, offset: int, val: int) -> torch.Tensor:
        """Write one word of 32 bits."""
        return self.memset32(tensor, offset, val)

    def _opened(self, told: Told, device: torch.device) -> torch.Tensor:
        """Return the part of another rank, as memory of this rank's device."""
        size, *way, _ = told
        if not self._on_gpu:
            return _mapped(way[0], size)
        # Who opens it from a device may access it from there, wherever it lies.
        storage = torch.UntypedStorage._new_shared_cuda(device.index, *way, False)
        return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (size,), (1,))


def install(folder: Path, *, on_gpu: bool, met: Callable[[], None] = lambda: None) -> SharedMemory:
    """Let torch's symmetric memory of this process be shared by files of `folder` or CUDA IPC.

    `met` is called when the memory of other ranks is mapped.
    """
    made = SharedMemory(folder, on_gpu=on_gpu, met=met)
    vars(symmetric)["_SymmetricMemory"] = made
    # On a GPU torch would allocate by a memory pool of its own allocator.
    vars(symmetric)["_should_use_implicit_mempool"] = lambda: False
    workspaces: dict[str, torch.Tensor] = {}

    def get_symm_mem_workspace(group_name: str, min_size: int) -> Memory | None:
        """Return memory of a group for temporary use, of at least `min_size` bytes."""
        held = workspaces.get(group_name)
        if held is None or held.numel() < min_size:
            device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else "cpu"
            held = made.empty_strided_p2p((min_size,), (1,), torch.uint8, device, group_name)
            workspaces[group_name] = held
        return made.rendezvous(held, group_name)

    vars(symmetric)["get_symm_mem_workspace"] = get_symm_mem_workspace
    return made


def _begins(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _mapped(file: Path, size: int) -> torch.Tensor:
    return torch.from_file(str(file), shared=True, size=size, dtype=torch.uint8)


class Memory:
    """The parts of all ranks, with the methods of torch's handle."""

    multicast_ptr = 0
    offset = 0

    def __init__(self, group: Any, parts: Sequence[torch.Tensor], *, pad_bytes: int) -> None:
        self._group, self._parts, self.signal_pad_size = group, parts, pad_bytes
        self.rank, self.world_size = group.rank(), group.size()
        self.group_name = group.group_name
        self.device = parts[self.rank].device
        self.buffer_size = parts[self.rank].numel() - pad_bytes
        self._tables = [
            torch.tensor(one, dtype=torch.int64, device=self.device)
            for one in (self.buffer_ptrs, self.signal_pad_ptrs)
        ]

    @property
    def buffer_ptrs(self) -> list[int]:
        """Addresses of the parts, as this rank has them."""
        return [part.data_ptr() for part in self._parts]

    @property
    def signal_pad_ptrs(self) -> list[int]:
        """Addresses of the signals, as this rank has them."""
        return [part[self.buffer_size :].data_ptr() for part in self._parts]

    @property
    def buffer_ptrs_dev(self) -> int:
        """Address of a table of the addresses of the parts, on this rank's device."""
        return self._tables[0].data_ptr()

    @property
    def signal_pad_ptrs_dev(self) -> int:
        """Address of a table of the addresses of the signals, on this rank's device."""
        return self._tables[1].data_ptr()

    def get_buffer(
        self, rank: int, sizes: Sequence[int], dtype: torch.dtype, storage_offset: int = 0
    ) -> torch.Tensor:
        """Return elements of a rank's part, from an offset in elements."""
        return self._view(self._parts[rank][: self.buffer_size], sizes, dtype, storage_offset)

    get_remote_tensor = get_buffer

    def get_signal_pad(
        self,
        rank: int,
        sizes: Sequence[int] = (),
        dtype: torch.dtype | None = None,
        storage_offset: int = 0,
    ) -> torch.Tensor:
        """Return a rank's signals, all of them where no sizes are given."""
        kind = dtype or torch.uint32
        wanted = sizes or (self.signal_pad_size // kind.itemsize,)
        return self._view(self._parts[rank][self.buffer_size :], wanted, kind, storage_offset)

    def _view(
        self, part: torch.Tensor, sizes: Sequence[int], dtype: torch.dtype, offset: int
    ) -> torch.Tensor:
        count = prod(sizes)
        held = part.view(dtype)[offset : offset + count]
        if held.numel() != count:
            raise RuntimeError(
                f"{count} elements from element {offset} on reach beyond the "
                f"{part.numel() // dtype.itemsize} elements of the symmetric memory"
            )
        return held.reshape(list(sizes))

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Wait for all ranks of the group."""
        self._finish()
        self._group.barrier().wait()

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Signal a rank, and go on."""
        self._finish()
        self._group.send([torch.zeros(1)], dst_rank, _SIGNALS + channel)

    def wait_signal(self, src_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Wait for the signal of a rank."""
        self._finish()
        self._group.recv([torch.zeros(1)], src_rank, _SIGNALS + channel).wait()

    def _finish(self) -> None:
        """Wait for what the current stream does: torch's barriers and signals lie in it."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

"""Symmetric memory for ranks on a CPU: each rank's part is a file that all of them map.

torch has symmetric memory on GPUs alone. Here `torch.distributed._symmetric_memory` calls this in
its place: memory is shared at once, and barriers and signals are collectives of the group, so that
who waits for whom is known. Kernels on the GPU that use the pointers are the PTX machine's.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed import _symmetric_memory as symmetric

_PAD_BYTES = 2048  # of signals, behind the part of each rank
_SIGNALS = 1 << 20  # tags of signals begin here


def install(folder: Path) -> None:
    """Let torch's symmetric memory of this process be in files of `folder`, for CPU tensors."""
    files: dict[int, Path] = {}
    numbers = itertools.count()

    class OnCpu:
        """What torch calls for symmetric memory."""

        @staticmethod
        def empty_strided_p2p(
            size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: object
        ) -> torch.Tensor:
            """Return a tensor whose memory other ranks can map."""
            nbytes = prod(size) * dtype.itemsize
            file = folder / f"symmetric-{os.getpid()}-{next(numbers)}"
            whole = _mapped(file, -(-nbytes // 16) * 16 + _PAD_BYTES)
            whole[-_PAD_BYTES:] = 0
            files[whole.data_ptr()] = file
            return whole[:nbytes].view(dtype).as_strided(size, stride)

        @staticmethod
        def rendezvous(tensor: torch.Tensor, group_name: str) -> Memory:
            """Return the way to the memory of all ranks of a group, each of which calls this."""
            file = files.get(tensor.data_ptr())
            if file is None:
                raise RuntimeError(
                    "the tensor is no symmetric memory; allocate it with symmetric_memory.empty"
                )
            group = _resolve_process_group(group_name)  # type: ignore[arg-type]
            told: list[Any] = [None] * group.size()
            dist.all_gather_object(told, (str(file), file.stat().st_size), group=group)
            return Memory(group, [_mapped(Path(path), size) for path, size in told])

        @staticmethod
        def set_group_info(*_: object) -> None:
            """Take what torch tells of a group: its ranks are known."""

        @staticmethod
        def is_symm_mem_tensor(tensor: torch.Tensor) -> bool:
            """Whether a tensor is symmetric memory."""
            return tensor.data_ptr() in files

    vars(symmetric)["_SymmetricMemory"] = OnCpu


def _mapped(file: Path, size: int) -> torch.Tensor:
    return torch.from_file(str(file), shared=True, size=size, dtype=torch.uint8)


class Memory:
    """The parts of all ranks, with the methods of torch's handle."""

    multicast_ptr = 0
    offset = 0
    signal_pad_size = _PAD_BYTES

    def __init__(self, group: Any, parts: Sequence[torch.Tensor]) -> None:
        self._group, self._parts = group, parts
        self.rank, self.world_size = group.rank(), group.size()
        self.group_name = group.group_name
        self.buffer_size = parts[self.rank].numel() - _PAD_BYTES

    @property
    def buffer_ptrs(self) -> list[int]:
        """Addresses of the parts, as this rank has them."""
        return [part.data_ptr() for part in self._parts]

    @property
    def signal_pad_ptrs(self) -> list[int]:
        """Addresses of the signals, as this rank has them."""
        return [part[-_PAD_BYTES:].data_ptr() for part in self._parts]

    def get_buffer(
        self, rank: int, sizes: Sequence[int], dtype: torch.dtype, storage_offset: int = 0
    ) -> torch.Tensor:
        """Return elements of a rank's part, from an offset in elements."""
        return self._view(self._parts[rank][:-_PAD_BYTES], sizes, dtype, storage_offset)

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
        wanted = sizes or (_PAD_BYTES // kind.itemsize,)
        return self._view(self._parts[rank][-_PAD_BYTES:], wanted, kind, storage_offset)

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
        self._group.barrier().wait()

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Signal a rank, and go on."""
        self._group.send([torch.zeros(1)], dst_rank, _SIGNALS + channel)

    def wait_signal(self, src_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Wait for the signal of a rank."""
        self._group.recv([torch.zeros(1)], src_rank, _SIGNALS + channel).wait()

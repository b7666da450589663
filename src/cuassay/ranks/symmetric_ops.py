"""torch's operators on symmetric memory, `torch.ops.symm_mem`, over memory of `symmetric`.

Each waits for all ranks before it reads their parts, and again before it returns, as torch's
kernels do. Sums are made in the order of the ranks, in the type of their elements.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed import _symmetric_memory as symmetric

from cuassay.errors import MissingToolError
from cuassay.model.ranks import other_way
from cuassay.ranks.symmetric import Memory, SharedMemory

_LIBRARIES: list[torch.library.Library] = []  # an operator is registered as long as one lives
# torch has these for its own tests, as products beside a collective.
_PRODUCTS = (
    "fused_all_gather_matmul",
    "fused_all_gather_scaled_matmul",
    "fused_matmul_reduce_scatter",
    "fused_scaled_matmul_reduce_scatter",
)
# Operators of the backends NVSHMEM and NCCL.
_OF_OTHER_BACKENDS = ("nvshmem_", "nccl_", "all_to_all_vdev", "tile_reduce", "multi_root_tile")


def install_operators(shared: SharedMemory, *, key: str) -> None:
    """Register the operators for tensors of a dispatch key, `CPU` or `CUDA`, in this process."""
    made = _Operators(shared)
    library: Any = torch.library.Library("symm_mem", "IMPL")  # type: ignore[no-untyped-call]
    for name, function in {
        "one_shot_all_reduce": made.all_reduce,
        "one_shot_all_reduce_out": made.all_reduce_into,
        "one_shot_all_reduce_copy": made.all_reduce_copy,
        "one_shot_all_reduce_copy_out": made.all_reduce_copy_into,
        "two_shot_all_reduce_": made.all_reduce_in_place,
        "two_shot_all_reduce_out": made.all_reduce_into,
        "multimem_all_reduce_": made.all_reduce_in_place,
        "multimem_one_shot_all_reduce": made.all_reduce,
        "multimem_one_shot_all_reduce_out": made.all_reduce_into,
        "multimem_one_shot_reduce_out": made.reduce_into,
        "multimem_all_gather_out": made.all_gather_into,
        "reduce_scatter_out": made.reduce_scatter_into,
        "get_remote_tensors": made.parts,
        "_low_contention_all_gather": made.all_gather,
        "_low_contention_reduce_scatter": made.reduce_scatter,
    }.items():
        library.impl(name, function, key, allow_override=True)
    for name in torch._C._dispatch_get_all_op_names():
        space, _, short = name.partition("::")
        if space == "symm_mem" and short.startswith(_OF_OTHER_BACKENDS):
            library.impl(short, _not_judged(short), key, allow_override=True)
    if key == "CPU":
        for name in _PRODUCTS:
            library.impl(name, vars(symmetric)[f"_{name}_fallback"], key)
    _LIBRARIES.append(library)


def _not_judged(name: str) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise MissingToolError(other_way(f"torch.ops.symm_mem.{name}"))

    return refuse


class _Operators:
    """The operators, with the arguments that torch gives them."""

    def __init__(self, shared: SharedMemory) -> None:
        self._shared = shared

    def parts(self, tensor: torch.Tensor, group_name: str) -> list[torch.Tensor]:
        """Return the tensor in the memory of every rank, by rank."""
        memory = self._memory(tensor, group_name)
        place = int(tensor.storage_offset())
        return [
            memory.get_buffer(rank, tensor.shape, tensor.dtype, place)
            for rank in range(memory.world_size)
        ]

    def all_reduce(self, tensor: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
        """Return the sum of all ranks' parts."""
        if reduce_op != "sum":
            raise RuntimeError(f"the reduction is {reduce_op!r}, and only 'sum' is supported")
        memory = self._memory(tensor, group_name)
        memory.barrier()
        total, *others = (part.clone() for part in self.parts(tensor, group_name))
        for other in others:
            total += other
        memory.barrier()
        return total

    def all_reduce_into(
        self, tensor: torch.Tensor, reduce_op: str, group_name: str, out: torch.Tensor
    ) -> torch.Tensor:
        """Write the sum of all ranks' parts into a tensor."""
        return out.copy_(self.all_reduce(tensor, reduce_op, group_name))

    def all_reduce_in_place(
        self, tensor: torch.Tensor, reduce_op: str, group_name: str
    ) -> torch.Tensor:
        """Write the sum of all ranks' parts into this rank's."""
        return self.all_reduce_into(tensor, reduce_op, group_name, tensor)

    def all_reduce_copy(
        self, buffer: torch.Tensor, given: torch.Tensor, reduce_op: str, group_name: str
    ) -> torch.Tensor:
        """Return the sum of what all ranks hand in, by way of symmetric memory."""
        return self.all_reduce(buffer.copy_(given), reduce_op, group_name)

    def all_reduce_copy_into(
        self,
        buffer: torch.Tensor,
        given: torch.Tensor,
        reduce_op: str,
        group_name: str,
        out: torch.Tensor,
    ) -> torch.Tensor:
        """Write the sum of what all ranks hand in into a tensor."""
        return self.all_reduce_into(buffer.copy_(given), reduce_op, group_name, out)

    def reduce_into(
        self, tensor: torch.Tensor, reduce_op: str, root: int, group_name: str, out: torch.Tensor
    ) -> torch.Tensor:
        """Write the sum of all ranks' parts into a tensor of the root."""
        total = self.all_reduce(tensor, reduce_op, group_name)
        return out.copy_(total) if _group(group_name).rank() == root else out

    def reduce_scatter_into(
        self, tensor: torch.Tensor, group_name: str, split_last_dim: bool, output: torch.Tensor
    ) -> torch.Tensor:
        """Write this rank's rows, or columns, of the sum of all ranks' parts into a tensor."""
        group = _group(group_name)
        total = self.all_reduce(tensor, "sum", group_name)
        mine = total.chunk(group.size(), -1 if split_last_dim else 0)[group.rank()]
        return output.copy_(mine.reshape(output.shape))

    def all_gather_into(
        self, tensor: torch.Tensor, group_name: str, out: torch.Tensor
    ) -> torch.Tensor:
        """Write this rank's tensor into `out` of every rank."""
        memory = self._memory(out, group_name)
        memory.barrier()
        for part in self.parts(out, group_name):
            part.chunk(memory.world_size)[memory.rank].copy_(tensor)
        memory.barrier()
        return out

    def all_gather(self, tensor: torch.Tensor, group_name: str) -> torch.Tensor:
        """Return the rows of all ranks, whose tensors may be in any memory."""
        group = _group(group_name)
        out = tensor.new_empty(tensor.shape[0] * group.size(), *tensor.shape[1:])
        group.all_gather_single(out, tensor.contiguous()).wait()
        return out

    def reduce_scatter(self, tensor: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
        """Return this rank's rows of the sum, or mean, of tensors that may be in any memory."""
        if reduce_op not in ("sum", "avg"):
            raise ValueError(f"the reduction is {reduce_op!r}, expected 'sum' or 'avg'")
        group = _group(group_name)
        out = tensor.new_empty(tensor.shape[0] // group.size(), *tensor.shape[1:])
        options = dist.ReduceScatterOptions()
        group.reduce_scatter_single(out, tensor.contiguous(), options).wait()
        return out / group.size() if reduce_op == "avg" else out

    def _memory(self, tensor: torch.Tensor, group_name: str) -> Memory:
        """Return the memory that a tensor lies in. Raises RuntimeError where it has none."""
        found = self._shared.rendezvous(tensor, group_name)
        if found is None:
            raise RuntimeError(
                "the tensor is not symmetric memory; allocate it with symmetric_memory.empty"
            )
        if not tensor.is_contiguous():
            raise RuntimeError("the tensor is not contiguous; call .contiguous() first")
        return found


def _group(name: str) -> Any:
    return _resolve_process_group(name)  # type: ignore[arg-type]

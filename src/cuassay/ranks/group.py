"""A process group whose collectives do what `collectives` says, over any way to the other ranks.

Functions of torch.distributed call its methods. An asynchronous collective is delivered by the
port: when, within what torch.distributed promises, is the port's choice.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from cuassay.ranks.collectives import Kind, Operation

BACKEND = "cuassay"
_WITHOUT_LINE = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
Tensors = list[torch.Tensor]
# What torch says of their methods is more than it calls them with.
_WORK: Any = dist._Work  # type: ignore[attr-defined]
_GROUP: Any = dist.ProcessGroup


class Port(Protocol):
    """The way to the other ranks."""

    def post(self, operation: Operation, given: Tensors, into: Tensors) -> int:
        """Begin a collective on tensors to hand in, and to fill; return its number."""

    def wait(self, number: int) -> None:
        """Return once a collective has filled its tensors. Raises what ends the rank's call."""


class _Begun(_WORK):  # type: ignore[misc]
    """Collectives that have begun with one call."""

    def __init__(self, port: Port, numbers: Sequence[int], filled: Tensors) -> None:
        super().__init__()
        self._port, self._over = port, False
        self.numbers, self.filled = numbers, filled

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Wait for the collectives."""
        if not self._over:
            for number in self.numbers:
                self._port.wait(number)
            self._over = True
        return True

    def is_completed(self) -> bool:
        """Wait for the collective: one that asks until it is there waits, too."""
        return self.wait()

    def is_success(self) -> bool:
        """Whether it has filled its tensors."""
        return self._over

    def exception(self) -> Any:
        """Return nothing: what goes wrong ends the rank's call."""
        return None

    def synchronize(self) -> None:
        """Wait for the collective."""
        self.wait()

    def result(self) -> Tensors:
        """Return the tensors that it fills."""
        self.wait()
        return self.filled

    def get_future(self) -> Any:
        """Return a future of the tensors that it fills, once they are there."""
        future: Any = torch.futures.Future()
        future.set_result(self.result())
        return future


class Group(_GROUP):  # type: ignore[misc]
    """A group of `members`, ranks of the world, of which this process is the one at `rank`."""

    def __init__(self, port: Port, *, name: str, members: Sequence[int], rank: int) -> None:
        super().__init__(rank, len(members))
        self.port, self._name, self._members, self._place = port, name, tuple(members), rank

    @property
    def group_name(self) -> str:
        """The name by which torch.distributed knows it."""
        return self._name

    def size(self) -> int:
        """Return how many ranks it has."""
        return len(self._members)

    def rank(self) -> int:
        """Return the place of this process among them."""
        return self._place

    def getBackendName(self) -> str:  # torch's name
        """Return the name of the backend."""
        return BACKEND

    def _begin(
        self,
        kind: Kind,
        given: Tensors,
        into: Tensors,
        *,
        root: int = 0,
        tag: int = 0,
        reduction: object = None,
    ) -> _Begun:
        operation = Operation(
            kind=kind,
            group=self._name,
            members=self._members,
            rank=self._place,
            root=root,
            tag=tag,
            reduction=_reduction_name(reduction),
            gives=tuple(one.numel() for one in given),
            takes=tuple(one.numel() for one in into),
            line=_callers_line(),
        )
        return _Begun(self.port, [self.port.post(operation, given, into)], into)

    def allreduce(self, tensors: Tensors, opts: Any = None) -> _Begun:
        """Begin an all_reduce."""
        return self._begin(Kind.ALL_REDUCE, tensors, tensors, reduction=opts and opts.reduceOp)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> _Begun:
        """Begin a reduce."""
        into = tensors if self._place == opts.rootRank else []
        return self._begin(Kind.REDUCE, tensors, into, root=opts.rootRank, reduction=opts.reduceOp)

    def broadcast(self, tensors: Tensors, opts: Any) -> _Begun:
        """Begin a broadcast."""
        return self._begin(Kind.BROADCAST, tensors, tensors, root=opts.rootRank)

    def allgather(self, outputs: list[Tensors], inputs: Tensors, opts: Any = None) -> _Begun:
        """Begin an all_gather into a list."""
        return self._begin(Kind.ALL_GATHER, inputs, outputs[0])

    def all_gather_single(
        self, output: torch.Tensor, given: torch.Tensor, opts: Any = None
    ) -> _Begun:
        """Begin an all_gather_into_tensor."""
        return self._begin(Kind.ALL_GATHER, [given], self._pieces(output))

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> _Begun:
        """Begin an all_gather_into_tensor of each pair, as functional collectives do."""
        return self._all(
            [self.all_gather_single(*pair, opts) for pair in zip(outputs, inputs, strict=True)]
        )

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: list[Tensors], inputs: Tensors, opts: Any) -> _Begun:
        """Begin a gather."""
        into = outputs[0] if self._place == opts.rootRank else []
        return self._begin(Kind.GATHER, inputs, into, root=opts.rootRank)

    def scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any) -> _Begun:
        """Begin a scatter."""
        given = inputs[0] if self._place == opts.rootRank else []
        return self._begin(Kind.SCATTER, given, outputs, root=opts.rootRank)

    def reduce_scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any) -> _Begun:
        """Begin a reduce_scatter of a list."""
        return self._begin(Kind.REDUCE_SCATTER, inputs[0], outputs, reduction=opts.reduceOp)

    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any) -> _Begun:
        """Begin a reduce_scatter_tensor."""
        return self._begin(
            Kind.REDUCE_SCATTER, self._pieces(given), [output], reduction=opts.reduceOp
        )

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any
    ) -> _Begun:
        """Begin a reduce_scatter_tensor of each pair, as functional collectives do."""
        return self._all(
            [self.reduce_scatter_single(*pair, opts) for pair in zip(outputs, inputs, strict=True)]
        )

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> _Begun:
        """Begin an all_to_all of lists."""
        return self._begin(Kind.ALL_TO_ALL, inputs, outputs)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        output_sizes: Sequence[int],
        input_sizes: Sequence[int],
        opts: Any = None,
    ) -> _Begun:
        """Begin an all_to_all_single; rows go by the given sizes, or in equal parts."""
        return self._begin(
            Kind.ALL_TO_ALL, self._rows(given, input_sizes), self._rows(output, output_sizes)
        )

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> _Begun:
        """Begin a barrier."""
        return self._begin(Kind.BARRIER, [], [])

    def send(self, tensors: Tensors, to: int, tag: int) -> _Begun:
        """Begin a send. It is over when it was received: nothing promises a buffer for it."""
        return self._begin(Kind.SEND, tensors, [], root=to, tag=tag)

    def recv(self, tensors: Tensors, source: int, tag: int) -> _Begun:
        """Begin to receive."""
        return self._begin(Kind.RECV, [], tensors, root=source, tag=tag)

    def _all(self, begun: Sequence[_Begun]) -> _Begun:
        """Return several that have begun as one."""
        return _Begun(
            self.port,
            [number for one in begun for number in one.numbers],
            [tensor for one in begun for tensor in one.filled],
        )

    def _pieces(self, tensor: torch.Tensor) -> Tensors:
        """Return a view of equal parts, one of each rank. Raises ValueError where none are."""
        if not tensor.is_contiguous():
            raise ValueError("a tensor of a collective is not contiguous; call .contiguous() first")
        if tensor.numel() % len(self._members):
            raise ValueError(
                f"a tensor of {tensor.numel()} elements has no {len(self._members)} equal parts"
            )
        return list(tensor.view(len(self._members), -1) if tensor.numel() else
                    [tensor.view(-1)] * len(self._members))  # fmt: skip

    def _rows(self, tensor: torch.Tensor, sizes: Sequence[int]) -> Tensors:
        if not sizes:
            return self._pieces(tensor)
        if sum(sizes) != tensor.shape[0] or len(sizes) != len(self._members):
            raise ValueError(
                f"split sizes {list(sizes)} do not add up to the {tensor.shape[0]} rows of a "
                f"tensor for {len(self._members)} ranks"
            )
        return list(torch.split(tensor, list(sizes)))


def _reduction_name(reduction: object) -> str:
    if reduction is None:
        return "SUM"
    known = dist.ReduceOp.RedOpType.__members__.items()
    return next((name for name, value in known if reduction == value), str(reduction))


def _callers_line() -> str:
    """Return file and line of the code that called torch.distributed."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_WITHOUT_LINE):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""


def open_world(port: Port, *, rank: int, size: int, store: Store) -> None:
    """Let torch.distributed have a world of `size` ranks in this process, over `port`."""
    register()
    dist.init_process_group(BACKEND, rank=rank, world_size=size, store=store, pg_options=port)


def register() -> None:
    """Make `cuassay` a backend of torch.distributed in this process, once.

    Its option is the port of a world; other groups have that of the world that they are of.
    """

    def create(options: Any, port: Port | None) -> Group:
        world: Any = dist.group.WORLD
        members = options.global_ranks_in_group or range(options.group_size)
        return Group(
            port or world.port, name=options.group_id, members=members, rank=options.group_rank
        )

    if BACKEND.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(BACKEND, create, extended_api=True, devices=["cpu", "cuda"])

"""What each collective of torch.distributed means, on the tensors of all its ranks.

Sums are taken in the order of the ranks, in the dtype of the tensors, as a ring takes them. The
same code gives a reference its truth, on tensors in float64, and a candidate its answers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch


class Kind(StrEnum):
    """The collectives, by the name of their function."""

    ALL_REDUCE = "all_reduce"
    REDUCE = "reduce"
    BROADCAST = "broadcast"
    ALL_GATHER = "all_gather"
    GATHER = "gather"
    SCATTER = "scatter"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BARRIER = "barrier"
    SEND = "send"
    RECV = "recv"


class MismatchError(Exception):
    """The ranks of a collective do not call the same one, or not with sizes that fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One rank's part of a collective, without its tensors.

    `group` names the group, `members` are the ranks of the world in it, `rank` is this one's place
    among them. `root` is a place too: of REDUCE, BROADCAST, GATHER and SCATTER the root, of SEND
    and RECV the other one. `reduction` is the reduction's name, such as SUM. `takes` and `gives`
    are the elements of each tensor that the rank receives and hands in. `line` is where the code
    calls it: file and line.
    """

    kind: Kind
    group: str
    members: tuple[int, ...]
    rank: int
    root: int = 0
    tag: int = 0
    reduction: str = "SUM"
    gives: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    line: str = ""

    @property
    def words(self) -> str:
        """The function and the line that calls it."""
        return f"{self.kind} ({self.line})" if self.line else self.kind.value

    @property
    def goes_alone(self) -> bool:
        """Whether two ranks are enough for it: it has no place in the group's order."""
        return self.kind in (Kind.SEND, Kind.RECV)


_REDUCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}

Tensors = Sequence[torch.Tensor]


def added(parts: Tensors) -> torch.Tensor:
    """Return the sum of a tensor of each rank, each added to the sum of those before it."""
    return functools.reduce(torch.add, parts)


def results(
    asked: Sequence[Operation],
    given: Sequence[Tensors],
    *,
    add: Callable[[Tensors], torch.Tensor] = added,
) -> list[list[torch.Tensor]]:
    """Return what each rank receives, flat or in the shape of what was given.

    `asked` and `given` are of all ranks of a group in order, of a SEND and its RECV in this order.
    `add` sums one tensor of each rank. Raises MismatchError where the ranks do not fit together.
    """
    first = asked[0]
    if first.kind is Kind.SEND:
        found = [[], [given[0][0]]]
    else:
        for one in asked[1:]:
            if (one.kind, one.root, one.reduction) != (first.kind, first.root, first.reduction):
                raise MismatchError(
                    f"rank {first.members[0]} calls {_named(first)} where rank "
                    f"{one.members[one.rank]} calls {_named(one)}"
                )
            reduces = first.kind in (Kind.ALL_REDUCE, Kind.REDUCE, Kind.REDUCE_SCATTER)
            if reduces and one.gives != first.gives:
                raise MismatchError(
                    f"rank {first.members[0]} hands {_sizes(first.gives)} to {first.words}, rank "
                    f"{one.members[one.rank]} {_sizes(one.gives)}"
                )
        found = _of_group(first, given, add)
    for operation, tensors in zip(asked, found, strict=True):
        sizes = tuple(tensor.numel() for tensor in tensors)
        if sizes != operation.takes:
            raise MismatchError(
                f"rank {operation.members[operation.rank]} expects {_sizes(operation.takes)} in "
                f"{operation.words}, and the other ranks send {_sizes(sizes)}"
            )
    return found


def _of_group(
    first: Operation, given: Sequence[Tensors], add: Callable[[Tensors], torch.Tensor]
) -> list[list[torch.Tensor]]:
    ranks, root = range(len(given)), first.root
    match first.kind:
        case Kind.ALL_REDUCE:
            made = [_reduced(first, column, add) for column in zip(*given, strict=True)]
            return [list(made) for _ in ranks]
        case Kind.REDUCE:
            made = [_reduced(first, column, add) for column in zip(*given, strict=True)]
            return [made if rank == root else [] for rank in ranks]
        case Kind.BROADCAST:
            return [list(given[root]) for _ in ranks]
        case Kind.ALL_GATHER:
            return [[one[0] for one in given] for _ in ranks]
        case Kind.GATHER:
            return [[one[0] for one in given] if rank == root else [] for rank in ranks]
        case Kind.SCATTER:
            return [[given[root][rank]] for rank in ranks]
        case Kind.REDUCE_SCATTER:
            return [[_reduced(first, [one[rank] for one in given], add)] for rank in ranks]
        case Kind.ALL_TO_ALL:
            return [[one[rank] for one in given] for rank in ranks]
        case _:
            return [[] for _ in ranks]


def _named(operation: Operation) -> str:
    match operation.kind:
        case Kind.REDUCE | Kind.BROADCAST | Kind.GATHER | Kind.SCATTER:
            return f"{operation.words} with root {operation.root}"
        case Kind.ALL_REDUCE | Kind.REDUCE_SCATTER:
            return f"{operation.words} with {operation.reduction}"
        case _:
            return operation.words


def _sizes(sizes: Sequence[int]) -> str:
    return f"{', '.join(map(str, sizes)) or 'no'} elements"


def _reduced(
    operation: Operation, column: Tensors, add: Callable[[Tensors], torch.Tensor]
) -> torch.Tensor:
    """Return the reduction of one tensor of each rank. Raises MismatchError for an unknown one."""
    match operation.reduction:
        case "SUM":
            return add(column)
        case "AVG":
            return add(column) / len(column)
    function = _REDUCTIONS.get(operation.reduction)
    if function is None:
        raise MismatchError(
            f"{operation.words} reduces with {operation.reduction}, expected one of "
            f"{', '.join(('SUM', 'AVG', *_REDUCTIONS))}"
        )
    return functools.reduce(function, column)

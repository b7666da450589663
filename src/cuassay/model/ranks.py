"""How the tensors of a problem lie over its ranks: the processes that share one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

AXIS = "ranks"  # the axis whose size is the number of ranks


class Lies(Enum):
    """Where the ranks of a call have a tensor."""

    OWN = auto()  # its first axis counts the ranks, and each has its slice
    SPLIT = auto()  # each has a part of the first axis, as torch.chunk cuts it; it may be empty
    WHOLE = auto()  # each has all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Which tensors of a problem belong to one rank, by name; every rank has the others whole.

    Of `agreed`, outputs that every rank returns, all ranks must return the same bits. As outputs
    of the problem these have a first axis of ranks, too, so that each answer is compared.
    """

    own: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    agreed: tuple[str, ...] = ()

    def lies(self, name: str) -> Lies:
        """Return where the ranks have an input or output."""
        if name in self.own or name in self.agreed:
            return Lies.OWN
        return Lies.SPLIT if name in self.split else Lies.WHOLE


def parts(length: int, ranks: int) -> Sequence[tuple[int, int]]:
    """Return start and end of each rank's part of an axis: equal ones, what is left, empty ones.

    As torch.chunk and torch.distributed.tensor.Shard cut it.
    """
    size = -(-length // ranks)
    return [(min(r * size, length), min((r + 1) * size, length)) for r in range(ranks)]


def other_way(name: str) -> str:
    """Return that ranks which meet by `name` are not judged, and which ways are."""
    return (
        f"the kernel uses {name}, by which ranks are not judged here; they can meet by "
        "torch.distributed, by torch's symmetric memory of the backend CUDA and, on GPUs, by CUDA "
        "IPC"
    )

"""What goes between the ranks' processes and where they meet: pickled, over pipes of their own.

All of these processes hold the candidate or what it sends: nothing of it is believed elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuassay.model.problem import Scalar
from cuassay.model.steps import Issued, Moments
from cuassay.model.trace import StepRaised
from cuassay.ranks.collectives import Operation


@dataclass(frozen=True, slots=True)
class Packed:
    """A tensor as bytes, contiguous."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    data: bytes


Sent: TypeAlias = Packed | Scalar


def pack(value: object) -> Sent | str:
    """Return a tensor or number for a message; of anything else the name of its type."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu().contiguous()
        data = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
        return Packed(value.dtype, tuple(value.shape), data)
    return value if isinstance(value, bool | int | float) else type(value).__name__


def unpack(sent: Sent) -> torch.Tensor | Scalar:
    """Return a tensor in memory of its own, or a number."""
    if not isinstance(sent, Packed):
        return sent
    if not sent.data:
        return torch.empty(sent.shape, dtype=sent.dtype)
    flat = torch.frombuffer(bytearray(sent.data), dtype=sent.dtype)
    return flat.reshape(sent.shape).clone()


# --- from where the ranks meet


@dataclass(frozen=True, slots=True)
class Begin:
    """Make calls, one after another, on these inputs of each; keep what they return.

    With `refill` the inputs of later calls are written into the tensors of the first. Before each
    call the GPU is kept busy for `busy_ms`. `moments` are those of asynchronous collectives,
    `issued` how calls are made on a GPU.
    """

    calls: Sequence[Sequence[Sent]]
    refill: bool
    moments: Moments
    busy_ms: float
    issued: Issued = Issued.PLAINLY


@dataclass(frozen=True, slots=True)
class Go:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Give:
    """Send the tensors that a collective of this number hands in, as they are now."""

    number: int


@dataclass(frozen=True, slots=True)
class Take:
    """Fill the tensors of a collective."""

    number: int
    tensors: Sequence[Packed]


@dataclass(frozen=True, slots=True)
class Read:
    """Send what the calls returned, as it is now, and what the inputs hold."""


# --- from a rank


@dataclass(frozen=True, slots=True)
class Joined:
    """It has built its function and joined the world."""


@dataclass(frozen=True, slots=True)
class Arrives:
    """It is about to make the next call, and waits for Go."""


@dataclass(frozen=True, slots=True)
class Posts:
    """It begins a collective, with its tensors where they are taken now.

    Unless collectives are LATE it waits for Go then.
    """

    number: int
    operation: Operation
    given: Sequence[Packed] | None


@dataclass(frozen=True, slots=True)
class Waits:
    """It waits for a collective."""

    number: int


@dataclass(frozen=True, slots=True)
class Gives:
    """The tensors that were asked for."""

    given: Sequence[Packed]


@dataclass(frozen=True, slots=True)
class Ends:
    """Its calls are over, or one has raised."""

    raised: StepRaised | None


@dataclass(frozen=True, slots=True)
class Holds:
    """What each call returned, by output, and what its inputs hold; `text` for what is neither."""

    returned: Sequence[Sequence[tuple[str, Sent | str]]]
    inputs: Sequence[Sequence[Sent | str]]

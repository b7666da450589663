"""Answers that are known to be right, by their bits: the same bytes need not be judged again.

A trial calls a kernel on the same values in many histories and under many circumstances, and most
answers come again bit by bit. To hold two of them against each other takes a thousandth of what
the reference's own error takes. Of a large tensor the blocks that are not zero are kept: the
gradient of a table of 65,536 rows has few.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from cuassay.oracle.bits import raw_bytes

T = TypeVar("T")
_BLOCK = 4096
_WHOLE_BYTES = 1 << 20  # a smaller tensor is kept as it is
_MOST = 8  # answers to a case
_SPARSE = 16  # a larger one where at most one block in so many has a bit


@dataclass(frozen=True, slots=True, eq=False)
class _Bits:
    """The bytes of a tensor: of every block, or of those numbered `blocks`; then the rest."""

    dtype: torch.dtype
    shape: torch.Size
    blocks: Tensor | None
    data: Tensor
    rest: Tensor

    @staticmethod
    def of(tensor: Tensor) -> _Bits | None:
        """Return the bits of a tensor, None where there are too many to keep."""
        raw = raw_bytes(tensor)
        if raw.numel() <= _WHOLE_BYTES:
            return _Bits(tensor.dtype, tensor.shape, None, raw.clone(), raw[:0].clone())
        rows, rest = _rows(raw)
        blocks = rows.any(1).nonzero().view(-1)
        if _SPARSE * blocks.numel() > rows.shape[0]:
            return None
        kept = rows[blocks].view(torch.uint8)
        return _Bits(tensor.dtype, tensor.shape, blocks, kept, rest.clone())

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.rest.nbytes

    def are_those_of(self, tensor: Tensor) -> bool:
        """Whether a tensor has the same dtype, shape and bytes."""
        if tensor.dtype is not self.dtype or tensor.shape != self.shape:
            return False
        raw = raw_bytes(tensor)
        if self.blocks is None:
            return torch.equal(raw, self.data)
        rows, rest = _rows(raw)
        blocks = rows.any(1).nonzero().view(-1)
        same = torch.equal(blocks, self.blocks) and torch.equal(rest, self.rest)
        return same and torch.equal(rows[blocks].view(torch.uint8), self.data)


def _rows(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return the whole blocks as rows of 8-byte words, where bytes lie so, and what is left."""
    whole = raw.numel() // _BLOCK * _BLOCK
    rows = raw[:whole].view(-1, _BLOCK)
    wide = raw.storage_offset() % 8 == 0
    return rows.view(torch.int64) if wide else rows, raw[whole:]


class KnownAnswers(Generic[T]):
    """What was found of answers, by case; of the last asked for at most `limit_bytes`."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self._held_bytes = limit_bytes, 0
        self._kept: OrderedDict[str, list[tuple[tuple[_Bits, ...], T]]] = OrderedDict()

    def shapes(self, case: str) -> list[tuple[int, ...]]:
        """Return the shapes of the answers to a case, nothing where none is known."""
        return [tuple(one.shape) for answer, _ in self._kept.get(case, [])[:1] for one in answer]

    def find(self, case: str, answer: Sequence[Tensor]) -> T | None:
        """Return what was found of this very answer to a case, None where nothing is kept."""
        for known, found in self._kept.get(case, ()):
            if all(bits.are_those_of(one) for bits, one in zip(known, answer, strict=True)):
                self._kept.move_to_end(case)
                return found
        return None

    def add(self, case: str, answer: Sequence[Tensor], found: T) -> None:
        """Keep what was found of an answer to a case, unless it is too large."""
        bits = [_Bits.of(one) for one in answer]
        held = tuple(one for one in bits if one is not None)
        if len(held) < len(bits):
            return
        answers = self._kept.setdefault(case, [])
        if len(answers) == _MOST:  # a kernel whose answers never come again
            self._held_bytes -= sum(one.nbytes for one in answers.pop(0)[0])
        answers.append((held, found))
        self._kept.move_to_end(case)
        self._held_bytes += sum(one.nbytes for one in held)
        while self._held_bytes > self._limit_bytes:
            _, answers = self._kept.popitem(last=False)
            self._held_bytes -= sum(one.nbytes for known, _ in answers for one in known)

"""What an instruction reads and writes, basic blocks, and which registers live where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ptxsan import isa
from ptxsan.errors import MachineError
from ptxsan.isa import Ends, Result
from ptxsan.syntax import (
    Address,
    Group,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)


def registers_of(operand: Operand) -> Iterator[str]:
    """Yield the names of the registers that an operand mentions."""
    match operand:
        case Register(name=name):
            if name != "_":
                yield name
        case Address(base=base, coordinates=coordinates):
            if isinstance(base, Register):
                yield base.name
            for item in coordinates:
                yield from registers_of(item)
        case Vector(items=items) | Group(items=items):
            for item in items:
                yield from registers_of(item)
        case Pair(first=first, second=second):
            yield from registers_of(first)
            yield from registers_of(second)
        case Immediate() | Symbol():
            return


def has_result(instruction: Instruction) -> bool:
    """Whether the first operand is a destination."""
    if isa.row(instruction).result is Result.NONE or not instruction.operands:
        return False
    return isinstance(instruction.operands[0], Register | Vector | Pair | Group)


def definitions(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers that an instruction writes."""
    if not has_result(instruction):
        return ()
    return tuple(registers_of(instruction.operands[0]))


def uses(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers that an instruction reads, its predicate among them."""
    only_written = has_result(instruction) and isa.row(instruction).result is not Result.BOTH
    start = 1 if only_written else 0
    names = [name for one in instruction.operands[start:] for name in registers_of(one)]
    if instruction.predicate is not None:
        names.append(instruction.predicate.name)
    return tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Instructions `start` to `end` (exclusive) without a jump into or out of the middle."""

    start: int
    end: int
    successors: tuple[int, ...]


def basic_blocks(body: Sequence[Instruction], labels: dict[str, int]) -> tuple[Block, ...]:
    """Return the basic blocks in order; `successors` are indices of blocks.

    Raises MachineError for a jump to an unknown label.
    """
    starts = {0, *labels.values()}
    starts |= {index + 1 for index, one in enumerate(body) if isa.row(one).ends is not Ends.NO}
    ordered = sorted(start for start in starts if start < len(body))
    number = {start: index for index, start in enumerate(ordered)}
    blocks = []
    for start, end in zip(ordered, [*ordered[1:], len(body)], strict=True):
        last = body[end - 1]
        ends = isa.row(last).ends
        falls = (end,) if last.predicate is not None or ends is Ends.NO else ()
        following = (*falls, target_of(last, labels)) if ends is Ends.JUMP else falls
        blocks.append(
            Block(
                start=start,
                end=end,
                successors=tuple(number[one] for one in following if one in number),
            )
        )
    return tuple(blocks)


def target_of(instruction: Instruction, labels: dict[str, int]) -> int:
    """Return the index that a jump goes to."""
    target = instruction.operands[0]
    if not isinstance(target, Symbol) or target.name not in labels:
        raise MachineError(f"jump to unknown label '{target}'", line=instruction.line)
    return labels[target.name]


class Liveness:
    """Which registers may be read after, or from, an instruction of a program.

    Backward dataflow with one bit a register; a predicated write does not end a life.
    """

    def __init__(self, body: Sequence[Instruction], blocks: Sequence[Block]) -> None:
        self._bits = bits = _Bits()
        effects = []
        for one in body:
            written = () if one.predicate is not None else definitions(one)
            effects.append((bits.of(uses(one)), bits.of(written)))
        ins: list[tuple[int, int]] = []
        for block in blocks:
            used = killed = 0
            for reads, writes in reversed(effects[block.start : block.end]):
                used = (used & ~writes) | reads
                killed |= writes
            ins.append((used, killed))
        outs, changed = [0] * len(blocks), True
        while changed:
            changed = False
            for index in reversed(range(len(blocks))):
                out = 0
                for successor in blocks[index].successors:
                    used, killed = ins[successor]
                    out |= used | (outs[successor] & ~killed)
                if out != outs[index]:
                    outs[index], changed = out, True
        self._after = [0] * len(body)
        self._before = [0] * (len(body) + 1)
        for block, out in zip(blocks, outs, strict=True):
            live = out
            for index in reversed(range(block.start, block.end)):
                self._after[index] = live
                used, killed = effects[index]
                live = (live & ~killed) | used
                self._before[index] = live

    def after(self, index: int) -> list[str]:
        """Return the registers that may be read behind instruction `index`, in a fixed order."""
        return self._bits.names(self._after[index])

    def before(self, index: int) -> list[str]:
        """Return the registers that may be read from instruction `index` on."""
        return self._bits.names(self._before[index])


class _Bits:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []

    def of(self, names: Sequence[str]) -> int:
        mask = 0
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = len(self._names)
                self._names.append(name)
            mask |= 1 << self._numbers[name]
        return mask

    def names(self, mask: int) -> list[str]:
        return [name for bit, name in enumerate(self._names) if mask >> bit & 1]

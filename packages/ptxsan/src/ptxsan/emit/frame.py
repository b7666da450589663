"""Where the registers of a kernel live: allocas, and their places in the thread's record.

A register that outlives many suspensions lives in the thread's record all the time: moving it at
each of them would make the code of kernels with many warp operations ten times as long.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ptxsan.emit.values import lanes_of, ones_of, width_of
from ptxsan.errors import MachineError
from ptxsan.facts import Facts
from ptxsan.program import Program
from ptxsan.runtime import layout
from ptxsan.syntax import Instruction

if TYPE_CHECKING:
    from ptxsan.emit.context import Emit


class Frame:
    """Allocas of registers, spill places of those that outlive a suspension, symbols."""

    def __init__(
        self, program: Program, facts: Facts, resident: frozenset[str], *, shadow: bool,
        doubles: bool = False,
    ) -> None:  # fmt: skip
        self._program, self._facts, self._shadow = program, facts, shadow
        self._doubles = doubles
        self._resident = resident
        self._numbers: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._spill_bytes = 0
        self._symbols = _symbols(program)

    def width(self, name: str) -> int:
        """Return a register's width in bits."""
        return width_of(self._program.registers[name])

    def bits(self, name: str) -> str:
        """Return the alloca of a register's bits."""
        return f"%v{self._number(name)}"

    def poison(self, name: str) -> str:
        """Return the alloca of a register's poison."""
        return f"%u{self._number(name)}"

    def shadows(self, name: str) -> list[str]:
        """Return the allocas of a register's shadows; none where it cannot have any."""
        if not self._shadow or name not in self._facts.shadowed:
            return []
        lanes = lanes_of(self._program.registers[name], doubles=self._doubles)
        return [f"%s{self._number(name)}.{lane}" for lane in range(lanes)]

    def _marks(self, name: str) -> str:
        """Return the LLVM type of a register's poison: a bit, or a mark in each byte."""
        return f"i{self.width(name)}" if name in self._facts.split else "i1"

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def symbol(self, name: str, instruction: Instruction) -> int:
        """Return the address of a variable in its own space."""
        if name in self._symbols:
            return self._symbols[name]
        raise MachineError(f"unknown symbol '{name}'", line=instruction.line)

    def allocas(self) -> list[str]:
        """Return the lines that make and clear every register that was used."""
        lines = []
        for name in self._numbers:
            if name in self._resident:
                for alloca, _, offset in self._cells(name):
                    lines.append(f"{alloca} = getelementptr i8, ptr %spill, i64 {offset}")
                continue
            lines.append(f"{self.bits(name)} = alloca i{self.width(name)}")
            if name in self._facts.poisonable:
                lines.append(f"{self.poison(name)} = alloca {self._marks(name)}")
            lines += [f"{cell} = alloca double" for cell in self.shadows(name)]
        return lines

    def clears(self, read: Collection[str]) -> list[str]:
        """Return the lines that give registers their value at the start: 0, uninitialised.

        Only those need one that may be `read` before they are written. For allocas with more than
        one store LLVM takes time of their number times that of the blocks, for others next to none.
        """
        lines = []
        for name in self._numbers:
            if name not in read:
                continue
            lines.append(f"store i{self.width(name)} 0, ptr {self.bits(name)}")
            if name in self._facts.poisonable:
                every = ones_of(self.width(name)) if name in self._facts.split else "true"
                lines.append(f"store {self._marks(name)} {every}, ptr {self.poison(name)}")
            lines += [f"store double 0.0, ptr {cell}" for cell in self.shadows(name)]
        return lines

    # ---- spilled registers, behind the exchange area; offsets from %spill

    @property
    def spill_bytes(self) -> int:
        """The bytes of all spilled registers of a thread."""
        return self._spill_bytes

    def spill(self, cx: Emit, live: list[str]) -> None:
        """Store the live registers in the thread's record."""
        for name in self._moving(live):
            for alloca, kind, offset in self._cells(name):
                value = cx.let(f"load {kind}, ptr {alloca}")
                cell = cx.let(f"getelementptr i8, ptr %spill, i64 {offset}")
                if kind == "i1":
                    value, kind = cx.let(f"zext i1 {value} to i8"), "i8"
                cx.line(f"store {kind} {value}, ptr {cell}")

    def reload(self, cx: Emit, live: list[str]) -> None:
        """Load the live registers again."""
        for name in self._moving(live):
            for alloca, kind, offset in self._cells(name):
                cell = cx.let(f"getelementptr i8, ptr %spill, i64 {offset}")
                stored = "i8" if kind == "i1" else kind
                value = cx.let(f"load {stored}, ptr {cell}")
                if kind == "i1":
                    value = cx.let(f"trunc i8 {value} to i1")
                cx.line(f"store {kind} {value}, ptr {alloca}")

    def _moving(self, live: list[str]) -> list[str]:
        """Return the registers that have to be moved when a thread waits."""
        declared = self._program.registers
        return [one for one in live if one in declared and one not in self._resident]

    def _cells(self, name: str) -> list[tuple[str, str, int]]:
        """Return (alloca, LLVM type, offset) of everything that belongs to a register."""
        if name not in self._places:
            self._places[name] = self._spill_bytes
            size = max(8, self.width(name) // 8) + 8 * len(self.shadows(name)) + 8
            self._spill_bytes += size
        start = self._places[name]
        width = self.width(name)
        cells = [(self.bits(name), f"i{width}", start)]
        offset = start + max(8, width // 8)
        for cell in self.shadows(name):
            cells.append((cell, "double", offset))
            offset += 8
        if name in self._facts.poisonable:
            cells.append((self.poison(name), self._marks(name), offset))
        return cells


def _symbols(program: Program) -> dict[str, int]:
    found = {one.name: one.address for one in (*program.shared, *program.local)}
    found |= {one.name: one.offset for one in program.params}
    found |= {one.name: global_address(index) for index, one in enumerate(program.globals)}
    return found | program.functions | {"WARP_SZ": 32}


def global_address(index: int) -> int:
    """Return the address of the first byte of allocation `index` of a launch."""
    return ((layout.FIRST_REGION + index) << layout.REGION_SHIFT) + (1 << (layout.REGION_SHIFT - 1))

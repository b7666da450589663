"""Where a register's value comes from: its defining instructions, and the float format it holds.

PTX from compilers is close to single assignment; of several definitions all count.
Values that pass through shared memory come from every float store to shared memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

from ptxsan import isa
from ptxsan.dataflow import definitions, uses
from ptxsan.isa import Memory, Result, Shadow
from ptxsan.program import Program
from ptxsan.syntax import Immediate, Instruction, Operand, Register, Vector

FLOATS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "tf32")


class Origins:
    """The definitions of a program's registers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._types: dict[str, str] = {}
        self._reaching: dict[int, set[int]] = {}

    @cached_property
    def sites(self) -> dict[str, tuple[int, ...]]:
        """Map each register to the sites that write it."""
        found: dict[str, list[int]] = {}
        for site, one in enumerate(self.program.body):
            for name in definitions(one):
                found.setdefault(name, []).append(site)
        return {name: tuple(sites) for name, sites in found.items()}

    @cached_property
    def shared_stores(self) -> tuple[int, ...]:
        """The sites that store to shared memory."""
        return tuple(
            site
            for site, one in enumerate(self.program.body)
            if isa.row(one).memory in (Memory.WRITE, Memory.UPDATE, Memory.COPY)
            and isa.names_space(one, "shared")
        )

    def type_of(self, name: str) -> str:
        """Return the float type that a register holds, or an empty string."""
        if self.program.registers.get(name) == "f32":
            return "f32"
        if name not in self._types:
            self._types[name] = ""  # ends loops of copies
            found = {self._result(self.program.body[site]) for site in self.sites.get(name, ())}
            found.discard("")
            self._types[name] = found.pop() if len(found) == 1 else ""
        return self._types[name]

    def _result(self, one: Instruction) -> str:
        if isa.row(one).copies:
            source = one.operands[1]
            if isinstance(source, Vector):
                kinds = {self.of_operand(item) for item in source.items}
                kind = kinds.pop() if len(kinds) == 1 else ""
                return f"{kind}x2" if kind in ("f16", "bf16") and len(source.items) == 2 else ""
            if isinstance(one.operands[0], Vector):
                return self.of_operand(source).removesuffix("x2")
            return self.of_operand(source)
        kind = isa.result_type(one)
        return kind if kind in FLOATS else ""

    def of_operand(self, operand: Operand) -> str:
        """Return the float type of an operand that is a register."""
        return self.type_of(operand.name) if isinstance(operand, Register) else ""

    def constant(self, operand: Operand) -> float | None:
        """Return the value of an f32 constant: an immediate, or a register that holds only one."""
        if isinstance(operand, Register):
            sites = self.sites.get(operand.name, ())
            only = self.program.body[sites[0]] if len(sites) == 1 else None
            if only is None or not isa.row(only).copies or len(only.operands) != 2:
                return None
            operand = only.operands[1]
        if isinstance(operand, Immediate) and operand.kind in ("f32", "f64"):
            code = "<f" if operand.kind == "f32" else "<d"
            size = struct.calcsize(code)
            return float(struct.unpack(code, operand.bits.to_bytes(8, "little")[:size])[0])
        return None

    def before(self, site: int) -> Iterator[int]:
        """Yield the sites whose results an instruction uses."""
        one = self.program.body[site]
        for name in uses(one):
            yield from self.sites.get(name, ())
        reads = isa.row(one).memory in (Memory.READ, Memory.UPDATE)
        if reads and isa.names_space(one, "shared"):
            yield from self.shared_stores

    def ancestors(self, start: int) -> set[int]:
        """Return every site that can have a part in an instruction's operands, itself included."""
        found, waiting = {start}, [start]
        while waiting:
            for site in self.before(waiting.pop()):
                if site not in found:
                    found.add(site)
                    waiting.append(site)
        return found

    def is_accumulation(self, site: int) -> bool:
        """Whether a result comes back, through additions, into what it is made from.

        In memory (atomic additions, also by compare and swap), around a loop, or along a chain of
        _CHAIN roundings of the same kind.
        """
        one = self.program.body[site]
        row = isa.row(one)
        if isa.is_atomic(one):
            return isa.adds_in_memory(one)
        if not row.sums and not isa.converts(one):
            return False
        before = self._registers_before(site)
        sums = row.sums or any(isa.row(self.program.body[other]).sums for other in before)
        if site in before:
            return sums
        alike = sum(self.program.body[other].opcode == one.opcode for other in before)
        return sums and (alike >= _CHAIN or site in self._swapped)

    @cached_property
    def _swapped(self) -> frozenset[int]:
        """The sites whose results go into a compare and swap."""
        found: set[int] = set()
        for site, one in enumerate(self.program.body):
            if isa.swaps_in_memory(one):
                found |= self._registers_before(site)
        return frozenset(found)

    def _registers_before(self, start: int) -> set[int]:
        """Return the float sites and copies that reach an instruction through registers."""
        if start not in self._reaching:
            found: set[int] = set()
            waiting = [start]
            while waiting:
                for name in uses(self.program.body[waiting.pop()]):
                    for site in self.sites.get(name, ()):
                        if site not in found and self._carries(self.program.body[site]):
                            found.add(site)
                            waiting.append(site)
            self._reaching[start] = found
        return self._reaching[start]

    def _carries(self, one: Instruction) -> bool:
        """Whether a result is a float that is made from floats."""
        row = isa.row(one)
        if row.copies or (row.shadow is Shadow.MOVED and row.part == -1):
            return True
        if row.memory is Memory.READ and not isa.multiplies_matrices(one):
            return False
        return row.result is not Result.PREDICATE and isa.result_type(one) in FLOATS


def of(program: Program) -> Origins:
    """Return the origins of a program, made once while it is compiled."""
    known = _KNOWN.get(id(program))
    if known is None or known.program is not program:
        _KNOWN.clear()
        known = _KNOWN[id(program)] = Origins(program)
    return known


_KNOWN: dict[int, Origins] = {}
_CHAIN = 15  # roundings of one kind before this one that make a chain

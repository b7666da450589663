"""multimem: one address for the same place in the memory of every device.

PTX ISA, "Data Movement and Conversion Instructions: multimem". Each instruction becomes accesses to
the memory of one device after another, with its own order and scope, and a reduction in the order
of the devices. The manual leaves that order open, and whether the accesses are one: no GPU has
confirmed either.

The parts of a multicast object are allocations one behind the other, so that their addresses have
one distance. An address of the object is that of the first part with `AT` set: ordinary accesses
through it are outside of every allocation, and so are those of multimem through an ordinary one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ptxsan.errors import MachineError
from ptxsan.runtime import layout
from ptxsan.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Register,
    Vector,
)

AT = 1 << 55  # above the regions of all allocations, below the tag of the space
_APART = 1 << layout.REGION_SHIFT
_SINGLE = "acc::f32"  # halves are added in single precision
# Memory operations take halves as bits.
_BITS = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}
_FLOATS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
_REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
_WAYS = {"ld_reduce", "st", "red"}
_TYPES = {*_BITS, "f32", "f64", "u32", "s32", "u64", "s64", "b32", "b64"}


def spread(module: Module, devices: int) -> Module:
    """Return a module whose multimem instructions access the memory of `devices` devices in turn.

    Raises MachineError for forms that the machine does not execute.
    """
    spread_out = {
        name: _Spread(function, devices).function()
        for name, function in module.functions.items()
        if any(one.base == "multimem" for one in function.body)
    }
    if not spread_out:
        return module
    return dataclasses.replace(
        module,
        functions=module.functions | spread_out,
        # A module is known by its text.
        text=f"{module.text}\n// multimem on {devices} devices\n",
    )


class _Spread:
    """A function whose instructions are put in the places of multimem's."""

    def __init__(self, function: Function, devices: int) -> None:
        self._function, self._devices = function, devices
        self._registers = dict(function.registers)

    def function(self) -> Function:
        """Return the function; labels stay before the instructions that they were before."""
        body: list[Instruction] = []
        places = []
        for one in self._function.body:
            places.append(len(body))
            body += self._instead(one) if one.base == "multimem" else (one,)
        places.append(len(body))
        labels = {name: places[place] for name, place in self._function.labels.items()}
        return dataclasses.replace(
            self._function, body=tuple(body), labels=labels, registers=self._registers
        )

    def _instead(self, one: Instruction) -> Iterator[Instruction]:
        """Yield what an instruction stands for."""
        way, type_ = one.parts[1], one.parts[-1]
        if way not in _WAYS or type_ not in _TYPES:
            raise MachineError(
                f"'{one.opcode}' is a form of multimem that the machine does not execute; it has "
                "ld_reduce, st and red of integers, halves, f32 and f64",
                line=one.line,
            )
        held = _BITS.get(type_, type_)
        kept = tuple(each for each in one.parts[2:-1] if each not in (*_REDUCTIONS, _SINGLE))
        if way == "ld_reduce":
            # Loads from all devices and what reduces them
            parts = ("ld", *kept, held)
            operation = self._operation(one)
            into, source = one.operands
            items = into.items if isinstance(into, Vector) else (into,)
            loaded = []
            for at in self._addresses(one, source):
                yield from at.before
                registers = tuple(self._register(parts[-1]) for _ in items)
                loaded.append(registers)
                target = Vector(registers) if isinstance(into, Vector) else registers[0]
                yield _made(one, parts, (target, at.address))
            for item, column in zip(items, zip(*loaded, strict=True), strict=True):
                yield from self._reduced(one, item, column, operation)
            return
        if way == "st":
            parts = ("st", *kept, held)
        else:
            exact = ("noftz",) if type_ in _BITS else ()
            parts = ("red", *kept, self._operation(one), *exact, type_)
        for to in self._addresses(one, one.operands[0]):
            yield from to.before
            yield _made(one, parts, (to.address, *one.operands[1:]))

    def _operation(self, one: Instruction) -> str:
        return next(each for each in one.parts if each in _REDUCTIONS)

    def _reduced(
        self, one: Instruction, into: Operand, column: Iterable[Register], operation: str
    ) -> Iterator[Instruction]:
        """Yield the reduction of one element of all devices."""
        type_ = one.parts[-1]
        if _SINGLE in one.parts:
            yield from self._in_single(one, into, list(column))
            return
        rounding = ("rn",) if operation == "add" and type_ in _FLOATS else ()
        first, *others = column
        for number, other in enumerate(others):
            last = number == len(others) - 1
            total = into if last else self._register(_BITS.get(type_, type_))
            yield _made(one, (operation, *rounding, type_), (total, first, other))
            if isinstance(total, Register):
                first = total
        if not others:
            yield _made(one, ("mov", _BITS.get(type_, type_)), (into, first))

    def _in_single(
        self, one: Instruction, into: Operand, column: list[Register]
    ) -> Iterator[Instruction]:
        """Yield a sum of halves in single precision, rounded at its end."""
        type_ = one.parts[-1]
        element, lanes = type_.removesuffix("x2"), 2 if type_.endswith("x2") else 1
        halves = []
        for packed in column:
            parts = tuple(self._register("b16") for _ in range(lanes))
            if lanes == 2:
                yield _made(one, ("mov", "b32"), (Vector(parts), packed))
            halves.append(parts if lanes == 2 else (packed,))
        rounded = []
        for lane in range(lanes):
            total: Register | None = None
            for parts in halves:
                wide = self._register("f32")
                yield _made(one, ("cvt", "f32", element), (wide, parts[lane]))
                if total is not None:
                    added = self._register("f32")
                    yield _made(one, ("add", "rn", "f32"), (added, total, wide))
                    wide = added
                total = wide
            assert total is not None
            end = self._register("b16")
            yield _made(one, ("cvt", "rn", element, "f32"), (end, total))
            rounded.append(end)
        source = Vector(tuple(rounded)) if lanes == 2 else rounded[0]
        yield _made(one, ("mov", "b32" if lanes == 2 else "b16"), (into, source))

    def _addresses(self, one: Instruction, operand: Operand) -> Iterator[_At]:
        """Yield the address in the memory of each device, with what computes it."""
        if not isinstance(operand, Address) or not isinstance(operand.base, Register):
            raise MachineError(f"'{one.opcode}' has no address in a register", line=one.line)
        for device in range(self._devices):
            place = self._register("u64")
            moved = Immediate((device * _APART - AT) & ((1 << 64) - 1), "int")
            yield _At(
                before=(_made(one, ("add", "u64"), (place, operand.base, moved)),),
                address=Address(place, operand.offset),
            )

    def _register(self, type_: str) -> Register:
        name = f"%multimem:{len(self._registers)}"
        self._registers[name] = type_
        return Register(name)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """An address, and the instructions before it."""

    before: tuple[Instruction, ...]
    address: Address


def _made(old: Instruction, parts: tuple[str, ...], operands: tuple[Operand, ...]) -> Instruction:
    """Return an instruction in the place of another, whose text stays that of the program."""
    return dataclasses.replace(old, parts=parts, operands=operands)

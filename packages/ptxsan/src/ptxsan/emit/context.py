"""What an emitter works with: reads operands, writes results, calls, suspends.

Everything is LLVM IR text, since building IR as objects costs ten times as much. A PTX register
is an alloca of its bits, with an i1 for poison and doubles for shadows where facts.py says that
it can have them; LLVM turns them into SSA values. A suspension stores the registers that are live
in the thread's record, returns to the scheduler, and loads them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from ptxsan import isa
from ptxsan.dataflow import Liveness, registers_of
from ptxsan.emit.frame import Frame
from ptxsan.emit.residence import long_lived
from ptxsan.emit.special import special_register
from ptxsan.emit.values import ZERO, Value, is_signed, lanes_of, ones_of, width_of
from ptxsan.errors import MachineError
from ptxsan.facts import Facts
from ptxsan.options import Options
from ptxsan.program import Program
from ptxsan.runtime import layout
from ptxsan.syntax import (
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
)

if TYPE_CHECKING:
    from ptxsan.interplay import Updates

_BY_BYTE = -(1 << 31)  # in a slot's word of poison: the bytes of the value are told apart
_FLOAT = {16: "half", 32: "float", 64: "double"}


@dataclass(slots=True)
class Parts:
    """What the code of a kernel has or needs besides its instructions.

    `declared` are the functions that it calls, `collectives` the handlers of exchanges and their
    numbers, `slots` the most values that one of them takes and gives, `resumes` the labels at which
    a thread goes on, `later` the bodies of updates that are carried out later.
    """

    declared: dict[str, str] = field(default_factory=dict)
    collectives: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    slots: int = 0
    uses_copies: bool = False
    resumes: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)


class Emit:
    """The state of compiling one kernel; `ins` and `site` are the instruction in work."""

    def __init__(
        self, program: Program, options: Options, liveness: Liveness, facts: Facts,
        updates: Updates,
    ) -> None:  # fmt: skip
        self.program, self.options, self.facts = program, options, facts
        self.updates = updates
        self.shadow_on = bool(options.shadow)
        self.algebra = options.kind == "algebra"
        self.ins: Instruction = program.body[0]
        self.site = 0
        self.lines: list[str] = []
        self.parts = Parts()
        self.liveness = liveness
        resident = long_lived(program.body, program.labels, liveness)
        self.frame = Frame(
            program, facts, resident, shadow=bool(options.shadow), doubles=self.algebra
        )
        self.swapped = {one.operands[1] for one in program.body if isa.swaps_in_memory(one)}
        self._fresh = 0

    # ---- plain IR

    def line(self, text: str) -> None:
        """Add one line of IR as it is."""
        self.lines.append(f"  {text}")

    def let(self, rhs: str) -> str:
        """Add `%new = rhs` and return the new name."""
        self._fresh += 1
        name = f"%t{self._fresh}"
        self.lines.append(f"  {name} = {rhs}")
        return name

    def fresh(self, prefix: str = "L") -> str:
        """Return a label name that is not in use."""
        self._fresh += 1
        return f"{prefix}.{self._fresh}"

    def label(self, name: str) -> None:
        """Begin a basic block; falls through from the one before if that has no end."""
        last = self.lines[-1].lstrip() if self.lines else ""
        if not last.startswith(("br ", "ret ", "switch ", "unreachable")):
            self.line(f"br label %{name}")
        self.lines.append(f"{name}:")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End the block with a conditional jump."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def jump(self, name: str) -> None:
        """End the block with a jump."""
        self.line(f"br label %{name}")

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Call a runtime function or LLVM intrinsic with (type, text) arguments."""
        types = ", ".join(type_ for type_, _ in arguments)
        self.parts.declared[name] = f"declare {result} @{name}({types})"
        text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in arguments)})"
        if result == "void":
            self.line(text)
            return ""
        return self.let(text)

    def unsupported(self, why: str) -> NoReturn:
        """Stop: this spelling has no meaning here."""
        raise self.error(why)

    def error(self, why: str) -> MachineError:
        """Return the error that this spelling has no meaning here."""
        return MachineError(f"'{self.ins.opcode}' {why}", line=self.ins.line)

    # ---- operands

    def read(self, operand: Operand, type_: str) -> Value:
        """Return an operand as a value of a PTX type (a wider register is cut)."""
        match operand:
            case Register(name=name, negated=negated):
                return self._read_register(name, type_, negated=negated)
            case Immediate():
                width = width_of(type_)
                bits = operand.bits & ((1 << width) - 1)
                if type_ == "pred":
                    constant = int(operand.bits != 0)
                else:
                    constant = bits - (1 << width) if bits >> (width - 1) and width > 1 else bits
                return Value(type_, str(constant))
            case Symbol(name=name, offset=offset):
                return Value(type_, str(self.symbol(name) + offset))
            case _:
                raise self.error(f"has an operand of a kind that is not read: {operand}")

    def _read_register(self, name: str, type_: str, *, negated: bool) -> Value:
        if name not in self.program.registers:
            return special_register(self, name, type_)
        have, want = self.frame.width(name), width_of(type_)
        bits = self.let(f"load i{have}, ptr {self.frame.bits(name)}")
        poison, undefined = "false", ""
        if name in self.facts.split:
            undefined = self.let(f"load i{have}, ptr {self.frame.poison(name)}")
            if have > want:
                undefined = self.let(f"trunc i{have} {undefined} to i{want}")
            poison = self.let(f"icmp ne i{min(have, want)} {undefined}, 0")
            if have < want:
                undefined = _widened(self, undefined, have, type_)
        elif name in self.facts.poisonable:
            poison = self.let(f"load i1, ptr {self.frame.poison(name)}")
        shadow = tuple(self.let(f"load double, ptr {cell}") for cell in self.frame.shadows(name))
        if have > want:
            bits = self.let(f"trunc i{have} {bits} to i{want}")
        elif have < want:
            extend = "sext" if is_signed(type_) else "zext"
            bits = self.let(f"{extend} i{have} {bits} to i{want}")
        if negated:
            bits = self.let(f"xor i1 {bits}, true")
        return Value(type_, bits, poison, shadow[: self.lanes(type_)], undefined)

    def undefined(self, value: Value) -> str:
        """Return 1 in each byte of a value that depends on memory that nobody wrote."""
        if value.undefined:
            return value.undefined
        return self.everywhere(value.poison, value.width)

    def everywhere(self, poison: str, width: int) -> str:
        """Return an i1 as a mark in each byte of a value."""
        known = {"false": "0", "true": str(ones_of(width))}.get(poison)
        if known is not None:
            return known
        return self.let(f"select i1 {poison}, i{width} {ones_of(width)}, i{width} 0")

    def lanes(self, type_: str) -> int:
        """Return how many shadows a value of a type has here."""
        return lanes_of(type_, doubles=self.algebra)

    def write(
        self,
        operand: Operand,
        type_: str,
        bits: str,
        *,
        poison: str | None = None,
        shadow: tuple[str, ...] = (),
        sources: tuple[Value, ...] = (),
        undefined: str = "",
    ) -> None:
        """Write a result of a PTX type; a wider register is filled by its sign or with zeros.

        `poison` defaults to that of the `sources`; without shadows the value counts as exact.
        `undefined` marks single bytes (see Value).
        """
        if not isinstance(operand, Register):
            self.unsupported(f"has a destination that is not a register: {operand}")
        name = operand.name
        if name == "_":
            return
        if name not in self.program.registers:
            self.unsupported(f"writes an undeclared register '{name}'")
        have, width = self.frame.width(name), width_of(type_)
        if have > width:
            extend = "sext" if is_signed(type_) else "zext"
            bits = self.let(f"{extend} i{width} {bits} to i{have}")
        elif have < width:
            bits = self.let(f"trunc i{width} {bits} to i{have}")
        self.line(f"store i{have} {bits}, ptr {self.frame.bits(name)}")
        if name in self.facts.poisonable:
            if poison is None:
                poison = self.either(*(one.poison for one in sources))
            if name in self.facts.split:
                marks = _fitting(self, undefined, poison, type_, have)
                self.line(f"store i{have} {marks}, ptr {self.frame.poison(name)}")
            else:
                if undefined and undefined != "0":
                    poison = self.let(f"icmp ne i{width} {undefined}, 0")
                self.line(f"store i1 {poison}, ptr {self.frame.poison(name)}")
        for index, cell in enumerate(self.frame.shadows(name)):
            value = shadow[index] if index < len(shadow) else ZERO
            self.line(f"store double {value}, ptr {cell}")

    def copy(self, operand: Operand, value: Value) -> None:
        """Write a value with its poison and its shadows."""
        self.write(
            operand, value.type, value.bits, poison=value.poison, shadow=value.shadow,
            undefined=value.undefined,
        )  # fmt: skip

    def either(self, *poisons: str) -> str:
        """Return the OR of poison bits."""
        found = [one for one in dict.fromkeys(poisons) if one != "false"]
        if "true" in found:
            return "true"
        result = found[0] if found else "false"
        for one in found[1:]:
            result = self.let(f"or i1 {result}, {one}")
        return result

    def as_float(self, value: Value) -> str:
        """Return the bits of an f16, f32 or f64 value as LLVM half, float or double."""
        return self.let(f"bitcast i{value.width} {value.bits} to {_FLOAT[value.width]}")

    def float_bits(self, text: str, width: int) -> str:
        """Return an LLVM float as its bits."""
        return self.let(f"bitcast {_FLOAT[width]} {text} to i{width}")

    def exact(self, value: Value, lane: int = 0) -> str:
        """Return what exact arithmetic would have given for an f32 or f64 value, as a double."""
        text = self.as_float(value)
        if value.width != 64:
            text = self.let(f"fpext {_FLOAT[value.width]} {text} to double")
        delta = value.lane(lane)
        return text if delta == ZERO else self.let(f"fadd double {text}, {delta}")

    # ---- places

    def symbol(self, name: str) -> int:
        """Return the address of a variable in its own window, or of a global symbol."""
        return self.frame.symbol(name, self.ins)

    def field(self, base: str, offset: int) -> str:
        """Return a pointer into the thread, block or launch record (`%thread`...)."""
        return self.let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load_field(self, base: str, offset: int, type_: str = "i32") -> str:
        """Return a field of the thread, block or launch record."""
        return self.let(f"load {type_}, ptr {self.field(base, offset)}")

    def store_field(self, base: str, offset: int, text: str, type_: str = "i32") -> None:
        """Set a field of the thread, block or launch record."""
        self.line(f"store {type_} {text}, ptr {self.field(base, offset)}")

    def stat(self, index: int) -> str:
        """Return a pointer to statistic 0 to 15 (double) of this instruction."""
        table = self.let(f"load ptr, ptr {self.field('%block', layout.BLOCK_STATS)}")
        return self.let(f"getelementptr double, ptr {table}, i64 {16 * self.site + index}")

    # ---- suspension

    def suspend(self, reason: int, live: list[str]) -> None:
        """Return to the scheduler; execution goes on behind this with only `live` registers."""
        number = len(self.parts.resumes) + 1
        label = f"resume.{number}"
        self.parts.resumes.append(label)
        self.frame.spill(self, live)
        self.store_field("%thread", layout.RESUME, str(number))
        count = self.let("load i64, ptr %count")
        self.line(f"store i64 {count}, ptr %count.p")
        self.line(f"store i32 {self.let('load i32, ptr %last')}, ptr %last.p")
        self.line(f"ret i64 {reason}")
        self.lines.append(f"{label}:")
        self.frame.reload(self, live)

    def collective(
        self,
        handler: str,
        inputs: list[Value],
        outputs: list[str],
        *,
        mask: str = "-1",
        immediate: int = 0,
        keep: tuple[Operand, ...] = (),
        reason: int = layout.REASON_COLLECTIVE,
    ) -> list[Value]:
        """Exchange values with the lanes of a mask and return the results.

        The handler (see runtime/collectives.py) runs once, when every lane of the mask has come.
        `keep` are operands that are read afterwards. With REASON_MEETING the mask is ignored: the
        handler runs for the lanes that have come when no other lane of the warp can run.
        """
        key = (handler, len(inputs), len(outputs), immediate)
        number = self.parts.collectives.setdefault(key, len(self.parts.collectives))
        self.parts.slots = max(self.parts.slots, len(inputs) + len(outputs))
        for index, value in enumerate(inputs):
            place = layout.EXCHANGE + layout.SLOT * index
            wide = value.bits
            if value.width < 64:
                wide = self.let(f"zext i{value.width} {wide} to i64")
            self.store_field("%thread", place, wide, "i64")
            for lane in range(2):
                self.store_field("%thread", place + 8 + 8 * lane, value.lane(lane), "double")
            poison = "0" if value.poison == "false" else self.let(f"zext i1 {value.poison} to i32")
            if value.undefined and value.width == 32:
                marked = self.let(f"or i32 {value.undefined}, {_BY_BYTE}")
                poison = self.let(f"select i1 {value.poison}, i32 {marked}, i32 0")
            self.store_field("%thread", place + 24, poison)
        self.store_field("%thread", layout.WAIT_MASK, mask)
        self.store_field("%thread", layout.WAIT_KEY, str(number))
        self.store_field("%thread", layout.WAIT_SITE, str(self.site))
        kept = [name for one in keep for name in registers_of(one)]
        live = self.liveness.after(self.site)
        self.suspend(reason, list(dict.fromkeys([*live, *kept])))
        return [_load_slot(self, len(inputs) + i, type_) for i, type_ in enumerate(outputs)]

    def suspend_here(self, reason: int) -> None:
        """Suspend with the registers that are live behind the instruction in work."""
        self.suspend(reason, self.liveness.after(self.site))


def _widened(cx: Emit, undefined: str, have: int, type_: str) -> str:
    """Widen the marks of a value's bytes; copies of the sign are as its top byte is."""
    want = width_of(type_)
    wide = cx.let(f"zext i{have} {undefined} to i{want}")
    if not is_signed(type_):
        return wide
    top = cx.let(f"lshr i{want} {wide}, {have - 8}")
    rest = ones_of(want) - ones_of(have)
    more = cx.let(f"mul i{want} {top}, {rest}")
    return cx.let(f"or i{want} {wide}, {more}")


def _fitting(cx: Emit, undefined: str, poison: str, type_: str, have: int) -> str:
    """Return the marks of a result's bytes in a register of `have` bits."""
    width = width_of(type_)
    if not undefined:
        return cx.everywhere(poison, have)
    if have > width and undefined != "0":
        return _widened(cx, undefined, width, f"{type_[0]}{have}")
    if have < width and undefined != "0":
        return cx.let(f"trunc i{width} {undefined} to i{have}")
    return undefined


def _load_slot(cx: Emit, index: int, type_: str) -> Value:
    place = layout.EXCHANGE + layout.SLOT * index
    width = width_of(type_)
    bits = cx.load_field("%thread", place, "i64")
    if width < 64:
        bits = cx.let(f"trunc i64 {bits} to i{width}")
    shadow = tuple(
        cx.load_field("%thread", place + 8 + 8 * lane, "double") for lane in range(cx.lanes(type_))
    )
    word = cx.load_field("%thread", place + 24)
    poison = cx.let(f"icmp ne i32 {word}, 0")
    undefined = ""
    if width == 32 and cx.facts.split and isa.row(cx.ins).copies:
        told = cx.let(f"icmp slt i32 {word}, 0")
        marks = cx.let(f"and i32 {word}, {ones_of(32)}")
        every = cx.everywhere(poison, 32)
        undefined = cx.let(f"select i1 {told}, i32 {marks}, i32 {every}")
    return Value(type_, bits, poison, shadow, undefined)

"""What each instruction does to registers of a symbolic thread.

A function is attached to base opcodes of `isa.TABLE`; it returns the value of the result, or None:
anything. An instruction without one leaves anything in what it writes, which is always true. So
no analysis has to know of an instruction to be sound; it can only prove less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ptxsan import isa
from ptxsan.prove.machine import Thread
from ptxsan.prove.state import Numbers, Path, State, Value, chosen
from ptxsan.prove.terms import (
    FALSE,
    TRUE,
    ZERO,
    Atom,
    Bitwise,
    Eq,
    Flag,
    Formula,
    Le,
    Ne,
    Poly,
    conjunction,
    decided,
    disjunction,
    divided_exactly,
    negated,
    of,
)
from ptxsan.syntax import Immediate, Instruction, Operand, Register, Vector
from ptxsan.syntax import Symbol as Name

_INTEGERS = frozenset(f"{kind}{width}" for kind in "usb" for width in (8, 16, 32, 64))


@dataclass(slots=True)
class Step:
    """One instruction on one path: what its function asks."""

    thread: Thread
    numbers: Numbers
    state: State
    path: Path
    one: Instruction
    registers: dict[str, str]
    learnt: list[Formula] = field(default_factory=list)  # what holds on the path from here on

    def value(self, operand: Operand) -> Value | None:
        """Return what an operand holds; None: anything."""
        match operand:
            case Immediate(bits=bits, kind="int"):
                return of(bits - (1 << 64) if bits >> 63 else bits)
            case Immediate():
                return None
            case Register(name=name, negated=is_negated):
                if name in self.thread.special:
                    return self.thread.special[name]
                found = self.state.registers.get(name)
                if is_negated and found is not None and not isinstance(found, Poly):
                    return negated(found)
                return None if is_negated else found
            case Name(name=name, offset=offset):
                held = self.thread.symbol(name)
                return None if held is None else held.base + offset
            case _:
                return None

    def poly(self, operand: Operand, width: int) -> Poly:
        """Return what an operand holds modulo 2^width; a new unknown where that is anything."""
        found = self.value(operand)
        if isinstance(found, Poly):
            return found
        made = of(self.unknown(width))
        if isinstance(operand, Register) and operand.name in self.registers:
            self.state.registers[operand.name] = made
        return made

    def unknown(self, width: int) -> Atom:
        """Return a new symbol of so many bits, as memory might hold."""
        return self.thread.atoms.symbol(
            f"data of line {self.one.line}", 0, (1 << width) - 1, data=True
        )

    def number(self, operand: Operand, type_: str) -> Poly:
        """Return the number that an operand of an integer type is."""
        width = int(type_[1:])
        signed = type_[0] == "s"
        return self.numbers.canonical(self.poly(operand, width), width, self.path, signed=signed)

    def formula(self, operand: Operand) -> Formula:
        """Return what a predicate says; a new unknown where that is anything."""
        if isinstance(operand, Immediate):
            return TRUE if operand.bits else FALSE
        found = self.value(operand)
        if found is not None and not isinstance(found, Poly):
            return found
        flag = self.thread.atoms.flag("data")
        if isinstance(operand, Register):
            positive = not operand.negated
            self.state.registers[operand.name] = Flag(flag.name)
            return flag if positive else negated(flag)
        return flag

    def holds(self, formula: Formula) -> bool:
        """Whether a formula holds here."""
        return self.numbers.holds(self.path, formula)


Transfer: TypeAlias = Callable[[Step], "Value | None"]
_FOUND: dict[str, Transfer] = {}


def transfers(*bases: str) -> Callable[[Transfer], Transfer]:
    """Attach a function to base opcodes that the machine knows."""
    assert isa.BASES.issuperset(bases), f"no row of isa.TABLE for one of {bases}"

    def attach(function: Transfer) -> Transfer:
        for base in bases:
            _FOUND[base] = function
        return function

    return attach


def transfer_of(one: Instruction) -> Transfer | None:
    """Return the function of an instruction, or None."""
    return _FOUND.get(one.base)


def bases() -> frozenset[str]:
    """Return the base opcodes that have a function."""
    return frozenset(_FOUND)


def _integer(step: Step) -> str | None:
    """Return the integer type that an instruction spells last, or None."""
    type_ = step.one.parts[-1]
    plain = type_ in _INTEGERS and "sat" not in step.one.parts and "cc" not in step.one.parts
    return type_ if plain else None


def _two(step: Step, type_: str) -> tuple[Poly, Poly]:
    width = int(type_[1:])
    return step.poly(step.one.operands[1], width), step.poly(step.one.operands[2], width)


@transfers("add", "sub")
def _sum(step: Step) -> Value | None:
    type_ = _integer(step)
    if type_ is None:
        return None
    a, b = _two(step, type_)
    return a + b if step.one.base == "add" else a - b


@transfers("mul", "mad")
def _product(step: Step) -> Value | None:
    type_ = _integer(step)
    if type_ is None:
        return None
    parts = step.one.parts
    width = int(type_[1:])
    if "lo" in parts:
        a, b = _two(step, type_)
        found = a * b
    elif "wide" in parts or "hi" in parts:
        found = step.number(step.one.operands[1], type_) * step.number(step.one.operands[2], type_)
        if "hi" in parts:
            found = step.thread.atoms.quotient(found, of(1 << width))
    else:
        return None
    if step.one.base == "mad":
        found = found + step.poly(step.one.operands[3], 2 * width if "wide" in parts else width)
    return found


@transfers("neg")
def _negative(step: Step) -> Value | None:
    type_ = _integer(step)
    return None if type_ is None else -step.poly(step.one.operands[1], int(type_[1:]))


@transfers("abs")
def _absolute(step: Step) -> Value | None:
    type_ = _integer(step)
    if type_ is None:
        return None
    a = step.number(step.one.operands[1], type_)
    return step.thread.atoms.choice(Le(-a), a, -a)


@transfers("min", "max")
def _extreme(step: Step) -> Value | None:
    type_ = _integer(step)
    if type_ is None or "relu" in step.one.parts:
        return None
    a, b = (step.number(one, type_) for one in step.one.operands[1:3])
    atoms = step.thread.atoms
    for x, y in ((a, b), (b, a)):
        if step.holds(Le(x - y)):
            return x if step.one.base == "min" else y
    return atoms.minimum(a, b) if step.one.base == "min" else atoms.maximum(a, b)


@transfers("div", "rem")
def _quotient(step: Step) -> Value | None:
    type_ = _integer(step)
    if type_ is None:
        return None
    a, b = (step.number(one, type_) for one in step.one.operands[1:3])
    found = divided(step, a, b)
    if found is None:
        return None
    return found if step.one.base == "div" else a - found * b


def divided(step: Step, a: Poly, b: Poly) -> Poly | None:
    """Return a / b rounded toward zero; None where b may not be positive or a be negative.

    Division by zero gives something that no document tells.
    """
    atoms = step.thread.atoms
    low, _ = b.interval()
    if not step.holds(Le(-a)):
        return None
    if low is None or low <= 0:
        if not step.holds(Le(of(1) - b)):
            return None
        b = atoms.maximum(b, of(1))
        found = atoms.quotient(a, b)
    else:
        found = atoms.quotient(a, b)
    # Note what an upper bound of the dividend says of a quotient: a < b*w gives a/b < w
    for fact in step.path:
        if not isinstance(fact, Le):
            continue
        above = a - fact.poly + 1  # a < above
        whole, rest = divided_exactly(above, b)
        if rest == ZERO and len(whole.terms) <= 4:
            step.learnt.append(Le(found - whole + 1))
    return found


@transfers("and", "or", "xor")
def _bits(step: Step) -> Value | None:
    type_ = step.one.parts[-1]
    if type_ == "pred":
        a, b = (step.formula(one) for one in step.one.operands[1:3])
        match step.one.base:
            case "and":
                return conjunction([a, b])
            case "or":
                return disjunction([a, b])
            case _:
                both = [conjunction([a, negated(b)]), conjunction([negated(a), b])]
                return disjunction(both)
    if _integer(step) is None:
        return None
    width = int(type_[1:])
    unsigned = f"u{width}"
    operands = step.one.operands[1:3]
    for one, other in (operands, operands[::-1]):
        bits = _constant(step, other, width)
        if bits is None:
            continue
        value = step.poly(one, width)
        full = (1 << width) - 1
        if step.one.base == "xor" and bits == full:
            return -value - 1
        if step.one.base == "and" and bits & (bits + 1) == 0:  # a remainder: exact modulo 2^width
            return step.thread.atoms.remainder(value, of(bits + 1)) if bits != full else value
        if step.one.base == "and" and (full ^ bits) & ((full ^ bits) + 1) == 0:
            return value - step.thread.atoms.remainder(value, of((full ^ bits) + 1))
    left, right = (step.number(one, unsigned) for one in operands)
    return step.thread.atoms.bits(Bitwise(step.one.base), left, right)


def _constant(step: Step, operand: Operand, width: int) -> int | None:
    found = step.value(operand)
    number = found.constant if isinstance(found, Poly) else None
    return None if number is None else number & ((1 << width) - 1)


@transfers("not")
def _complement(step: Step) -> Value | None:
    if step.one.parts[-1] == "pred":
        return negated(step.formula(step.one.operands[1]))
    type_ = _integer(step)
    return None if type_ is None else -step.poly(step.one.operands[1], int(type_[1:])) - 1


@transfers("shl", "shr")
def _shift(step: Step) -> Value | None:
    type_ = _integer(step)
    if type_ is None:
        return None
    width = int(type_[1:])
    amount = _constant(step, step.one.operands[2], 32)
    if amount is None:
        return None
    if step.one.base == "shl":
        return step.poly(step.one.operands[1], width) * (1 << amount) if amount < width else ZERO
    amount = min(amount, width - 1) if type_[0] == "s" else amount
    if amount >= width:
        return ZERO
    read = type_ if type_[0] == "s" else f"u{width}"
    return step.thread.atoms.quotient(step.number(step.one.operands[1], read), of(1 << amount))


@transfers("bfe")
def _field(step: Step) -> Value | None:
    type_ = _integer(step)
    if type_ is None or type_[0] != "u":
        return None
    width = int(type_[1:])
    place, length = (_constant(step, one, 32) for one in step.one.operands[2:4])
    if place is None or length is None or place & 0xFF >= width:
        return None
    atoms = step.thread.atoms
    place, length = place & 0xFF, length & 0xFF
    moved = atoms.quotient(step.number(step.one.operands[1], type_), of(1 << place))
    return atoms.remainder(moved, of(1 << length)) if length < width else moved


@transfers("popc", "clz")
def _count(step: Step) -> Value | None:
    return of(step.thread.atoms.symbol(f"count of line {step.one.line}", 0, 64, data=True))


_COMPARED: dict[str, Callable[[Poly], Formula]] = {
    "eq": Eq, "ne": Ne, "lt": lambda p: Le(p + 1), "le": Le,
    "gt": lambda p: Le(-p + 1), "ge": lambda p: Le(-p),
    "lo": lambda p: Le(p + 1), "ls": Le, "hi": lambda p: Le(-p + 1), "hs": lambda p: Le(-p),
}  # fmt: skip


@transfers("setp")
def _comparison(step: Step) -> Value | None:
    type_ = step.one.parts[-1]
    compare = _COMPARED.get(step.one.parts[1])
    if type_ not in _INTEGERS or compare is None:
        return None
    if step.one.parts[1] in ("lo", "ls", "hi", "hs"):
        type_ = f"u{type_[1:]}"
    left, right = step.one.operands[1:3]
    width = int(type_[1:])
    bits = step.value(left), step.value(right)
    if step.one.parts[1] in ("eq", "ne") and all(isinstance(one, Poly) for one in bits):
        difference = bits[0] - bits[1]  # type: ignore[operator]
        if difference.constant is not None:
            equal = difference.constant % (1 << width) == 0
            found: Formula = TRUE if equal is (step.one.parts[1] == "eq") else FALSE
            return _combined(step, found)
    a, b = step.number(left, type_), step.number(right, type_)
    found = decided(compare(a - b))
    return _combined(step, found)


def _combined(step: Step, found: Formula) -> Formula | None:
    """Apply `setp.lt.and.s32 p, a, b, c`."""
    for word, join in (("and", conjunction), ("or", disjunction)):
        if word in step.one.parts[2:-1]:
            return join([found, step.formula(step.one.operands[3])])
    return None if "xor" in step.one.parts[2:-1] else found


def raw_comparison(step: Step) -> Formula | None:
    """Return what a comparison of integers would say if nothing wrapped; None: it is none."""
    compare = _COMPARED.get(step.one.parts[1]) if step.one.base == "setp" else None
    if compare is None or step.one.parts[-1] not in _INTEGERS:
        return None
    a, b = (step.value(one) for one in step.one.operands[1:3])
    if not isinstance(a, Poly) or not isinstance(b, Poly):
        return None
    width = int(step.one.parts[-1][1:])
    return compare(a.modulo(width) - b.modulo(width))


@transfers("selp")
def _selected(step: Step) -> Value | None:
    type_ = step.one.parts[-1]
    if type_ not in _INTEGERS:
        return None
    formula = step.formula(step.one.operands[3])
    a, b = (step.poly(one, int(type_[1:])) for one in step.one.operands[1:3])
    return chosen(step.thread.atoms, formula, a, b)


@transfers("mov")
def _moved(step: Step) -> Value | None:
    source = step.one.operands[1]
    if step.one.parts[-1] == "pred":
        return step.formula(source)
    if isinstance(source, Vector):
        if len(source.items) == 2 and step.one.parts[-1] in ("b64", "u64", "s64"):
            low, high = (step.number(item, "u32") for item in source.items)
            return low + high * (1 << 32)
        return None
    found = step.value(source)
    return found if isinstance(found, Poly) else None


@transfers("cvta")
def _moved_between_spaces(step: Step) -> Value | None:
    found = step.value(step.one.operands[1])
    space = isa.space_of(step.one)
    if not isinstance(found, Poly) or space == "param":
        return None
    window = step.thread.window(space)
    return found - window if "to" in step.one.parts else found + window


@transfers("cvt")
def _converted(step: Step) -> Value | None:
    to, source = step.one.parts[-2:]
    if to not in _INTEGERS or "sat" in step.one.parts:
        return None
    if source not in _INTEGERS:
        return None
    if int(to[1:]) <= int(source[1:]):
        held = step.poly(step.one.operands[1], int(source[1:]))
        if int(to[1:]) >= 32:
            return held
        # A narrow result fills its register by its sign, as cvt's documentation has it.
        return step.numbers.canonical(held, int(to[1:]), step.path, signed=to[0] == "s")
    return step.number(step.one.operands[1], source)

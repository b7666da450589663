"""Device functions are expanded at their calls, so that an entry is one flat list.

Parameters of a call (`.param` variables of the caller) become registers of their own: PTX lets
them be reached only by ld.param and st.param at constant offsets.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ptxsan.declarations import size_of
from ptxsan.errors import MachineError
from ptxsan.syntax import (
    Address,
    Declaration,
    Function,
    Group,
    Immediate,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

_DEPTH = 64
# What a kernel calls that has no body in PTX: bytes of its result, of its parameters.
EXTERNAL = {"vprintf": (4, (8, 8)), "__assertfail": (0, (8, 8, 4, 8, 8))}


@dataclass(slots=True, kw_only=True)
class Flat:
    """An entry with everything it calls expanded."""

    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Declaration] = field(default_factory=dict)
    copies: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """How names of a function are spelt in the flat program."""

    suffix: str
    renamed: dict[str, str]
    end: str

    def of(self, name: str) -> str:
        return self.renamed.get(name, name)


def flatten(module: Module, entry: Function) -> Flat:
    """Return the entry's body with calls of functions that have a body expanded.

    Raises MachineError for recursion and calls through pointers.
    """
    flat = Flat()
    _expand(module, entry, {}, flat, depth=0)
    return flat


def _expand(
    module: Module, function: Function, params: dict[str, str], flat: Flat, *, depth: int
) -> None:
    if depth > _DEPTH:
        raise MachineError(f"'{function.name}' calls itself", line=function.line)
    names = _names(function, params, flat)
    for name, kind in function.registers.items():
        flat.registers[names.of(name)] = kind
    for one in function.variables:
        if one.space not in ("param", "reg"):
            renamed = names.of(one.name)
            flat.variables[renamed] = dataclasses.replace(one, name=renamed)
    targets: dict[int, list[str]] = {}
    for label, index in function.labels.items():
        targets.setdefault(index, []).append(names.of(label))
    for index, instruction in enumerate(function.body):
        for label in targets.get(index, ()):
            flat.labels[label] = len(flat.body)
        _one(module, _rename(instruction, names), names, flat, depth=depth)
    for label in targets.get(len(function.body), ()):
        flat.labels[label] = len(flat.body)
    if depth:
        flat.labels[names.end] = len(flat.body)


def _names(function: Function, params: dict[str, str], flat: Flat) -> _Names:
    """Return the spelling of a function's names; the variables of its calls begin with `%=`."""
    if flat.copies == 0:
        suffix, own = "", {}
    else:
        suffix = f"@f{flat.copies}"
        own = {name: name + suffix for name in (*function.registers, *function.labels)}
        own |= {one.name: one.name + suffix for one in function.variables if one.space == "local"}
    flat.copies += 1
    passed = {one.name: f"%={one.name}{suffix}" for one in function.variables if _is_param(one)}
    return _Names(suffix=suffix, renamed=own | passed | params, end=f"end{suffix}")


def _is_param(one: Declaration) -> bool:
    return one.space in ("param", "reg")


def _one(
    module: Module,
    instruction: Instruction,
    names: _Names,
    flat: Flat,
    *,
    depth: int,
) -> None:
    base = instruction.base
    if base == "ret" and depth:
        jump = dataclasses.replace(
            instruction, opcode="bra", parts=("bra",), operands=(Symbol(names.end),)
        )
        flat.body.append(jump)
    elif base == "call":
        _call(module, instruction, flat, depth=depth)
    elif base in ("ld", "st") and "param" in instruction.parts and _is_passed(instruction):
        flat.body.extend(_moves(instruction, flat))
    else:
        flat.body.append(instruction)


def _is_passed(instruction: Instruction) -> bool:
    """Whether the address is a variable of a call."""
    address = instruction.operands[0 if instruction.base == "st" else 1]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return False
    return address.base.name.startswith("%=")


def _moves(instruction: Instruction, flat: Flat) -> list[Instruction]:
    """Turn `st.param.v2.b32 [p+8], {a, b}` into moves to registers of their own."""
    store = instruction.base == "st"
    address, value = instruction.operands if store else reversed(instruction.operands)
    assert isinstance(address, Address)
    assert isinstance(address.base, Symbol)
    type_ = instruction.parts[-1]
    size = size_of(type_)
    items = value.items if isinstance(value, Vector) else (value,)
    found = []
    for number, item in enumerate(items):
        cell = Register(f"{address.base.name}+{address.offset + number * size}:{size}")
        flat.registers.setdefault(cell.name, f"b{8 * size}")
        found.append(
            dataclasses.replace(
                instruction,
                opcode=f"mov.b{8 * size}",
                parts=("mov", f"b{8 * size}"),
                operands=(cell, item) if store else (item, cell),
            )
        )
    return found


def _call(module: Module, instruction: Instruction, flat: Flat, *, depth: int) -> None:
    operands = instruction.operands
    results = operands[0].items if isinstance(operands[0], Group) else ()
    rest = operands[1:] if isinstance(operands[0], Group) else operands
    if not rest or not isinstance(rest[0], Symbol):
        raise MachineError("calls through a pointer are not supported", line=instruction.line)
    arguments = rest[1].items if len(rest) > 1 and isinstance(rest[1], Group) else ()
    callee = module.functions.get(rest[0].name)
    if callee is None or not callee.body:
        flat.body.append(_external(instruction, rest[0].name, results, arguments, flat))
        return
    if instruction.predicate is not None:
        raise MachineError("a predicated call is not supported", line=instruction.line)
    formal = [one.name for one in (*callee.results, *callee.params)]
    actual = [_spelling(one, instruction.line) for one in (*results, *arguments)]
    _expand(module, callee, dict(zip(formal, actual, strict=True)), flat, depth=depth + 1)


def _external(
    instruction: Instruction,
    name: str,
    results: tuple[Operand, ...],
    given: tuple[Operand, ...],
    flat: Flat,
) -> Instruction:
    """Return `call.vprintf result, argument...` in registers; what is unknown stays as it is."""
    if name not in EXTERNAL or len(given) != len(EXTERNAL[name][1]):
        return instruction
    size, sizes = EXTERNAL[name]
    line = instruction.line
    cells = [_cell(one, each, flat, line) for one, each in zip(given, sizes, strict=True)]
    result = _cell(results[0], size, flat, line) if results else Register("_")
    return dataclasses.replace(
        instruction, opcode=f"call.{name}", parts=("call", name), operands=(result, *cells)
    )


def _cell(operand: Operand, size: int, flat: Flat, line: int) -> Register:
    """Return the register that stands for a parameter (see `_moves`)."""
    cell = Register(f"{_spelling(operand, line)}+0:{size}")
    flat.registers.setdefault(cell.name, f"b{8 * size}")
    return cell


def _spelling(operand: Operand, line: int) -> str:
    match operand:
        case Symbol(name=name) | Register(name=name):
            return name
        case _:
            raise MachineError("a call's parameter must be a variable", line=line)


def _rename(instruction: Instruction, names: _Names) -> Instruction:
    if not names.renamed:
        return instruction
    predicate = instruction.predicate
    return dataclasses.replace(
        instruction,
        operands=tuple(_renamed(one, names) for one in instruction.operands),
        predicate=Register(names.of(predicate.name), predicate.negated) if predicate else None,
    )


def _renamed(operand: Operand, names: _Names) -> Operand:
    match operand:
        case Register(name=name, negated=negated):
            return Register(names.of(name), negated)
        case Symbol(name=name, offset=offset):
            return Symbol(names.of(name), offset)
        case Address(base=base, offset=offset, coordinates=coordinates):
            renamed = _renamed(base, names)
            assert isinstance(renamed, Register | Symbol | Immediate)
            return Address(renamed, offset, tuple(_renamed(one, names) for one in coordinates))
        case Vector(items=items):
            return Vector(tuple(_renamed(one, names) for one in items))
        case Group(items=items):
            return Group(tuple(_renamed(one, names) for one in items))
        case Pair(first=first, second=second):
            return Pair(
                Register(names.of(first.name), first.negated),
                Register(names.of(second.name), second.negated),
            )
        case Immediate():
            return operand

"""Device functions are expanded at their calls, so that an entry is one flat list.

Parameters of a call (`.param` variables of the caller) become registers of their own: PTX lets
them be reached only by ld.param and st.param at constant offsets.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ptxsan import isa
from ptxsan.declarations import size_of
from ptxsan.errors import MachineError
from ptxsan.isa import Ends, Memory
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

_TURNS = (48, 24, 12, 8, 5, 3)  # of a function that calls itself: as many as stay below _MOST
_MOST = 40_000  # instructions
# What a kernel calls that has no body in PTX: bytes of its result, of its parameters.
EXTERNAL = {
    "vprintf": (4, (8, 8)), "__assertfail": (0, (8, 8, 4, 8, 8)), "malloc": (8, (8,)),
    "free": (0, (8,)),
}  # fmt: skip
HEAP_CALLS = frozenset(("malloc", "free"))
KERNEL = "%ptxsan_kernel"  # a special register: which of several kernels a thread runs
TOO_DEEP = "ptxsan: too deep"  # what stands for a call that is not expanded


@dataclass(slots=True, kw_only=True)
class Flat:
    """An entry with everything it calls expanded."""

    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Declaration] = field(default_factory=dict)
    copies: int = 0
    calls: int = 0
    turns: int = 0
    pointed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """How names of a function are spelt in the flat program."""

    suffix: str
    renamed: dict[str, str]
    end: str

    def of(self, name: str) -> str:
        return self.renamed.get(name, name)


def flatten(module: Module, *entries: Function) -> Flat:
    """Return the entries' bodies with calls of functions that have a body expanded.

    Several entries are one program: a thread goes to the one whose number KERNEL holds.

    A call through a pointer becomes a choice among the functions whose address is taken and whose
    parameters fit. Functions that call themselves are expanded several times; a call that would
    go deeper ends the launch without a verdict. Raises MachineError for a body that is too long.
    """
    for turns in _TURNS:
        found = {symbol.name for one in module.variables.values() for _, symbol in one.addresses}
        for function in module.functions.values():
            for one in function.body:
                if not isa.is_call(one):
                    found |= {each.name for each in one.operands if isinstance(each, Symbol)}
        address_taken = frozenset(name for name in found & set(module.functions))
        flat = Flat(turns=turns, pointed=address_taken)
        try:
            for number, entry in enumerate(entries[1:], start=1):
                is_it = Register(f"%=kernel:{number}")
                flat.registers[is_it.name] = "pred"
                first = dataclasses.replace(entry.body[0], predicate=None)
                flat.body.append(
                    isa.equal(first, "u32", is_it, Register(KERNEL), Immediate(number, "int"))
                )
                flat.body.append(isa.jump(first, _beginning(number), when=is_it))
            for number, entry in enumerate(entries):
                flat.labels[_beginning(number)] = len(flat.body)
                _expand(module, entry, {}, flat, stack=())
        except _TooLong:
            continue
        return flat
    raise MachineError(
        f"'{entries[0].name}' calls functions that call themselves in too many ways",
        line=entries[0].line,
    )


def _beginning(number: int) -> str:
    return f"kernel@{number}"


class _TooLong(Exception):
    """Functions that call themselves were expanded too often."""


def _expand(
    module: Module,
    function: Function,
    params: dict[str, str],
    flat: Flat,
    *,
    stack: tuple[str, ...],
) -> None:
    if len(flat.body) > _MOST and len(set(stack)) < len(stack):
        raise _TooLong
    stack = (*stack, function.name)
    depth = len(stack) - 1
    # The spelling of a function's names; the variables of its calls begin with `%=`.
    if flat.copies == 0:
        suffix, own = "", {}
    else:
        suffix = f"@f{flat.copies}"
        own = {name: name + suffix for name in (*function.registers, *function.labels)}
        own |= {one.name: one.name + suffix for one in function.variables if one.space == "local"}
    flat.copies += 1
    passed = {
        one.name: f"%={one.name}{suffix}"
        for one in function.variables
        if one.space in ("param", "reg")
    }
    names = _Names(suffix=suffix, renamed=own | passed | params, end=f"end{suffix}")
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
        _one(module, _rename(instruction, names), names, flat, stack=stack)
    for label in targets.get(len(function.body), ()):
        flat.labels[label] = len(flat.body)
    if depth:
        flat.labels[names.end] = len(flat.body)


def _one(
    module: Module, instruction: Instruction, names: _Names, flat: Flat, *, stack: tuple[str, ...]
) -> None:
    row = isa.row(instruction)
    if row.ends is Ends.RETURN and len(stack) > 1:
        flat.body.append(isa.jump(instruction, names.end, when=instruction.predicate))
    elif row.calls:
        _call(module, instruction, flat, stack)
    elif isa.works_on_pairs(instruction):
        halves: list[Vector] = []
        for place in range(len(instruction.operands)):
            registers = [f"%=half{place}.{half}" for half in (0, 1)]
            flat.registers |= dict.fromkeys(registers, "f32")
            halves.append(Vector(tuple(map(Register, registers))))
        moves = [
            isa.move(instruction, "b64", to, source)
            for to, source in zip(halves[1:], instruction.operands[1:], strict=True)
        ]
        for half in (0, 1):
            moves.append(isa.single(instruction, *(one.items[half] for one in halves)))
        moves.append(isa.move(instruction, "b64", instruction.operands[0], halves[0]))
        flat.body.extend(moves)
    elif isa.takes_the_extreme_of_three(instruction):
        to, first, second, third = instruction.operands
        flat.body.append(isa.single(instruction, to, first, second))
        flat.body.append(isa.single(instruction, to, to, third))
    elif _is_passed(instruction):
        store = isa.row(instruction).memory is Memory.WRITE
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
            to, source = (cell, item) if store else (item, cell)
            found.append(isa.move(instruction, f"b{8 * size}", to, source))
        flat.body.extend(found)
    else:
        flat.body.append(instruction)


def _is_passed(instruction: Instruction) -> bool:
    """Whether it reads or writes a variable of a call."""
    address = isa.parameter(instruction)
    if address is None or not isinstance(address.base, Symbol):
        return False
    return address.base.name.startswith("%=")


def _call(module: Module, instruction: Instruction, flat: Flat, stack: tuple[str, ...]) -> None:
    operands = instruction.operands
    results = operands[0].items if isinstance(operands[0], Group) else ()
    rest = operands[1:] if isinstance(operands[0], Group) else operands
    arguments = rest[1].items if len(rest) > 1 and isinstance(rest[1], Group) else ()
    callee = module.functions.get(rest[0].name) if isinstance(rest[0], Symbol) else None
    if isinstance(rest[0], Symbol) and (callee is None or not callee.body):
        # `call.vprintf result, argument...` in registers; what is unknown stays as it is
        name = rest[0].name
        if name not in EXTERNAL or len(arguments) != len(EXTERNAL[name][1]):
            external = instruction
        else:
            size, sizes = EXTERNAL[name]
            line = instruction.line
            cells = [
                _cell(one, each, flat, line) for one, each in zip(arguments, sizes, strict=True)
            ]
            result = _cell(results[0], size, flat, line) if results else Register("_")
            external = isa.call(instruction, name, (result, *cells), instruction.predicate)
        flat.body.append(external)
        return
    flat.calls += 1
    end = f"called@{flat.calls}"
    if (condition := instruction.predicate) is not None:
        skipped = Register(condition.name, not condition.negated)
        flat.body.append(isa.jump(instruction, end, when=skipped))
    actual = [_spelling(one, instruction.line) for one in (*results, *arguments)]
    if callee is not None:
        _enter(module, callee, actual, instruction, flat, stack)
    else:
        _choose(module, rest[0], actual, instruction, flat, stack)
    flat.labels[end] = len(flat.body)


def _enter(
    module: Module,
    callee: Function,
    actual: list[str],
    instruction: Instruction,
    flat: Flat,
    stack: tuple[str, ...],
) -> None:
    """Expand a call of a function, or stop where it has called itself often enough."""
    if stack.count(callee.name) >= flat.turns:
        flat.body.append(isa.call(instruction, TOO_DEEP, (), when=None))
        return
    formal = [one.name for one in (*callee.results, *callee.params)]
    _expand(module, callee, dict(zip(formal, actual, strict=True)), flat, stack=stack)


def _choose(
    module: Module,
    pointer: Operand,
    actual: list[str],
    instruction: Instruction,
    flat: Flat,
    stack: tuple[str, ...],
) -> None:
    """Expand a call through a pointer: each function that it may hold behind a comparison.

    A pointer that holds none of them traps.
    """
    end, found = f"chosen@{flat.calls}", 0
    for name in sorted(flat.pointed):
        callee = module.functions[name]
        if not callee.body or len(callee.results) + len(callee.params) != len(actual):
            continue
        found += 1
        other, is_it = f"{end}:{found}", Register(f"%={end}:{found}")
        flat.registers[is_it.name] = "pred"
        flat.body.append(isa.equal(instruction, "u64", is_it, pointer, Symbol(name)))
        flat.body.append(isa.jump(instruction, other, when=Register(is_it.name, negated=True)))
        _enter(module, callee, actual, instruction, flat, stack)
        flat.body.append(isa.jump(instruction, end))
        flat.labels[other] = len(flat.body)
    if not found and flat.pointed:
        raise MachineError(
            "calls through a pointer, and no function of the module whose address is taken fits",
            line=instruction.line,
        )
    flat.body.append(isa.calls_nothing(instruction))
    flat.labels[end] = len(flat.body)


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

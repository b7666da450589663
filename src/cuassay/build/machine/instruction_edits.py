"""Small edits of a kernel's PTX, each of which would repair one kind of fault.

A kernel that is right after one edit is wrong at the line that the instruction comes from, in
whatever language it is written and whatever it takes to build it again. An edit changes all
instructions of a source line alike: the compiler unrolls loops and gives each thread several
elements. Every instruction is exchanged for one, so labels stay where they are.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from cuassay.model.machine import InstructionChange, InstructionEdit
from cuassay.model.turns import in_turns
from ptxsan.lines import own_line
from ptxsan.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Register,
    SourceLine,
    Symbol,
)

_FLOATS = {"f32": ("<f", "<I"), "f64": ("<d", "<Q")}  # of struct: the number, and its bits
_LARGEST = {"f32": (2.0 - 2.0**-23) * 2.0**127, "f64": math.inf}
_LN2 = math.log(2.0)
_GUARDS = (1e-5, 1e-6, 1e-8, 1e-12)
_SMALLEST = 1e-9  # of a number that is taken for one over a size
_SMALL = 1e-2  # a constant up to this size that is added guards a root or a quotient
_INTEGERS = frozenset(
    f"{sign}{bits}" for sign in ("s", "u", "b") for bits in (16, 32, 64)
)  # types of integer arithmetic
_ARITHMETIC = frozenset({"add", "sub", "mul", "mad", "div", "rem", "shr", "shl", "min", "max"})
_ROOTS = frozenset({"sqrt", "rsqrt", "rcp", "ex2", "lg2", "abs", "neg", "tanh", "sin", "cos"})
# What may be left out of floats, and of integers: there all but bits of addresses.
_CALCULATIONS = _ROOTS | {"add", "sub", "mul", "fma", "div", "min", "max"}
_COUNTS = frozenset({"sub", "mul", "div", "rem", "shr", "min", "max"})
_KEEPING = frozenset({"mul", "div", "rem", "min", "max", "selp"}) | _ROOTS
_SIGN_BITS = (31, 63)
_OF_ARGUMENTS = _ARITHMETIC | {"and", "or", "xor", "not", "cvt", "neg", "abs"}
_BOUNDS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "lo": "ls", "ls": "lo", "hi": "hs",
           "hs": "hi"}  # fmt: skip
_SIGNS = {"s8": "u8", "u8": "s8", "s16": "u16", "u16": "s16", "s32": "u32", "u32": "s32"}
_TURNED = {"add": "sub", "sub": "add", "min": "max", "max": "min"}
_OTHERS = 6  # integers that are tried in the place of one
_MOST = 4096  # edits of one kernel

# The kind of change, words for a reader, and the instruction that it gives.
_Change = tuple[InstructionChange, str, Instruction]
# Instructions for those at places of functions, by the names of these.
Exchanged = dict[tuple[str, int], Instruction]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Tests:
    """What is tested in a function: names of registers.

    `loops` are predicates that a branch back goes by, `compared` what comparisons read.
    """

    loops: frozenset[str]
    compared: frozenset[str]


def edits_of(
    module: Module,
    kernel: str,
    *,
    ran: Collection[int],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
    leaving_out: bool = False,
) -> Iterator[tuple[InstructionEdit, Exchanged]]:
    """Yield edits of a kernel with the instructions that each of them exchanges.

    `ran` are the PTX lines that were executed; `sizes` and `scalars` are those of the call. A key
    names what is changed in the words of the source line, so that it is found again in a
    compilation for other sizes. With `leaving_out` edits repair nothing but leave an operation
    out, one of those on a line at a time.
    """
    groups: dict[str, tuple[InstructionEdit, Exchanged]] = {}
    for name, function in module.functions.items():
        if function.entry and name != kernel:
            continue
        back = {
            item.predicate.name
            for number, item in enumerate(function.body)
            if item.base == "bra"
            and item.predicate is not None
            and isinstance(item.operands[0], Symbol)
            and function.labels.get(item.operands[0].name, number) <= number
        }
        compared = {
            operand.name
            for item in function.body
            if item.base == "setp"
            for operand in item.operands[1:]
            if isinstance(operand, Register)
        }
        makers = {
            item.operands[0].name: f"{item.opcode} of line {item.source.line if item.source else 0}"
            for item in reversed(function.body)
            if item.operands and isinstance(item.operands[0], Register)
        }
        threads, of_sizes = _of_threads(function), _of_sizes(function)
        tests = _Tests(loops=frozenset(back), compared=frozenset(compared))
        for place, instruction in enumerate(function.body):
            if instruction.line not in ran:
                continue
            source, lifted = own_line(instruction.source), False
            if leaving_out and source is not None and not source.line:
                source, lifted = _line_of_use(function, place), True
            if source is None or not source.line:
                continue
            file = source.file.rpartition("/")[2]
            changes = _changes(function, place, tests, sizes, scalars)
            if leaving_out:
                given = _origins(instruction, makers)
                changes = (
                    (kind, f"{text} ({given})", new)
                    for kind, text, new in _left_out(instruction, makers, threads, of_sizes)
                )
            for change, words, new in changes:
                key = f"{kernel} {file}:{source.line} {instruction.opcode} {change} {words}"
                edit = InstructionEdit(
                    change=change, file=file, line=source.line, words=words, key=key, lifted=lifted
                )
                groups.setdefault(key, (edit, {}))[1][name, place] = new
        if len(groups) > _MOST:
            break
    yield from groups.values()


def lines_of(module: Module, kernel: str) -> Iterator[tuple[str, int]]:
    """Yield file and line of a source that a kernel's instructions come from."""
    for name, function in module.functions.items():
        for item in () if function.entry and name != kernel else function.body:
            source = own_line(item.source)
            if source is not None and source.line:
                yield source.file.rpartition("/")[2], source.line


def ordered(edits: Iterable[InstructionEdit], *, near: int) -> list[InstructionEdit]:
    """Return edits with their kinds in turns, in each the lines closest to `near` first."""
    by_kind: dict[InstructionChange, list[InstructionEdit]] = {}
    for edit in edits:
        by_kind.setdefault(edit.change, []).append(edit)
    groups = [sorted(group, key=lambda edit: abs(edit.line - near)) for group in by_kind.values()]
    return list(in_turns(groups, each=4))


def edited_module(module: Module, edit: InstructionEdit, exchanged: Exchanged) -> Module:
    """Return the module with instructions exchanged."""
    functions = dict(module.functions)
    for name in {name for name, _ in exchanged}:
        body = list(functions[name].body)
        for (where, place), new in exchanged.items():
            if where == name:
                body[place] = new
        functions[name] = dataclasses.replace(functions[name], body=tuple(body))
    # A module is known by its text.
    return dataclasses.replace(module, functions=functions, text=f"{module.text}\n// {edit.key}")


def _changes(
    function: Function,
    place: int,
    tests: _Tests,
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
) -> Iterator[_Change]:
    """Yield what may stand in the place of one instruction."""
    one = function.body[place]
    kind = one.parts[-1]
    if one.base == "setp":
        yield from _of_comparison(one, tests)
    if one.base == "ld" and "param" in one.parts:
        yield from _of_parameter(function, one)
        return
    if one.base in ("cvt", "shr", "ld") and kind in _SIGNS:
        other = _SIGNS[kind]
        changed = _named(one, (*one.parts[:-1], other))
        yield InstructionChange.SIGN, f"`{other}` for `{kind}`", changed
    if one.base in ("ld", "st"):
        yield from _of_places(one, sizes)
    if one.base == "selp":
        yield from _parts(one, one.operands[1:3])
    for number, operand in enumerate(one.operands[1:], 1):
        if not isinstance(operand, Immediate) or operand.kind not in _FLOATS:
            continue
        form, bits = _FLOATS[operand.kind]
        (value,) = struct.unpack(form, struct.pack(bits, operand.bits))
        for change, words, new in _other_floats(value, sizes, scalars):
            if not math.isfinite(new) or abs(new) <= _LARGEST[operand.kind]:
                (pattern,) = struct.unpack(bits, struct.pack(form, new))
                yield change, words, _with(one, number, Immediate(pattern, operand.kind))
    if kind in ("f32", "f64"):
        yield from _of_float_arithmetic(one)
    elif kind in _INTEGERS and one.base in ("and", "sub"):
        # A size rounded down, or with something taken off: as it was.
        yield from _parts(one, one.operands[1:2])
    if kind in _INTEGERS and (one.base in _ARITHMETIC or one.base == "setp"):
        yield from _of_integers(function, place, tests, sizes)


def _origins(one: Instruction, makers: Mapping[str, str]) -> str:
    """Return what an instruction's operands come from: the copies that a compiler makes agree."""
    words = []
    for operand in one.operands[1:]:
        if isinstance(operand, Register):
            words.append(makers.get(operand.name, operand.name))
        elif isinstance(operand, Immediate):
            words.append(str(operand.bits))
    return ", ".join(words)


def _of_threads(function: Function) -> frozenset[str]:
    """Return the registers that follow from a thread's number alone.

    What a compiler makes of it to share out elements has bits that no number of threads needs.
    """
    found: set[str] = set()
    for item in function.body:
        if not item.operands or not isinstance(item.operands[0], Register):
            continue
        given = [one.name for one in item.operands[1:] if isinstance(one, Register)]
        if given and all(one.startswith(("%tid", "%laneid")) or one in found for one in given):
            found.add(item.operands[0].name)
    return frozenset(found)


def _of_sizes(function: Function) -> frozenset[str]:
    """Return the registers that follow from a launch's arguments alone and meet something else.

    A number of sizes ends there, such as how far a row is shifted: whatever made it, bits too.
    """
    found: set[str] = set()
    for item in function.body:
        if not item.operands or not isinstance(item.operands[0], Register):
            continue
        target, given = item.operands[0].name, item.operands[1:]
        of_arguments = item.base in _OF_ARGUMENTS and all(
            isinstance(one, Immediate) or (isinstance(one, Register) and one.name in found)
            for one in given
        )
        if of_arguments or (item.base == "ld" and "param" in item.parts):
            found.add(target)
        else:
            found.discard(target)
    return frozenset(
        one.name
        for item in function.body
        if not (item.operands and getattr(item.operands[0], "name", "") in found)
        for one in item.operands
        if isinstance(one, Register) and one.name in found
    )


def _line_of_use(function: Function, place: int) -> SourceLine | None:
    """Return the line at which the result of the instruction at a place is used first.

    A compiler that takes an operation out of a loop takes its line away.
    """
    made, *later = function.body[place:]
    wanted = {one.name for one in made.operands[:1] if isinstance(one, Register)}
    for item in later:
        if wanted.isdisjoint(one.name for one in item.operands[1:] if isinstance(one, Register)):
            continue
        source = own_line(item.source)
        if source is not None and source.line:
            return source
        wanted |= {one.name for one in item.operands[:1] if isinstance(one, Register)}
    return None


def _left_out(
    one: Instruction,
    makers: Mapping[str, str],
    threads: Collection[str],
    of_sizes: Collection[str],
) -> Iterator[_Change]:
    """Yield an instruction that gives zero, and those that give an operand as it is.

    Not of sums: without one of its parts the other one is left, which zero for that part says. But
    of a number that is made of sizes alone nothing else may say it.
    """
    kind, target = one.parts[-1], one.operands[0] if one.operands else None
    bits = kind.lstrip("fsub")
    if not isinstance(target, Register) or not bits.isdigit() or target.name in threads:
        return
    whole = kind in _INTEGERS
    of_size = whole and target.name in of_sizes and one.base in _OF_ARGUMENTS
    if one.base != "selp" and one.base not in (_COUNTS if whole else _CALCULATIONS) and not of_size:
        return
    if one.base == "shr":  # a part of a quotient that is there for negative numbers
        value, by = one.operands[1:]
        signs = isinstance(by, Immediate) and by.bits in _SIGN_BITS
        shifted = isinstance(value, Register) and makers.get(value.name, "").startswith("shr")
        if (signs or shifted) and not of_size:
            return
        if signs:  # a comparison with zero in another form: as if it were always below zero
            ones = Immediate((1 << int(bits)) - 1 if kind.startswith("s") else 1, "int")
            below = dataclasses.replace(one, operands=(target, ones))
            yield InstructionChange.BRANCH, "always below zero", _named(below, ("mov", f"b{bits}"))
    elif one.base == "fma":
        yield from _parts(one, one.operands[3:])
    elif one.base in _KEEPING and not (whole and one.base == "mul"):
        yield from _parts(one, one.operands[1:3])
    width = int(bits) * (2 if "wide" in one.parts else 1)
    none = dataclasses.replace(one, operands=(target, Immediate(0, "int")))
    yield InstructionChange.ZERO, f"zero for `{one.base}`", _named(none, ("mov", f"b{width}"))


def _other_floats(
    value: float, sizes: Mapping[str, int], scalars: Mapping[str, float]
) -> Iterator[tuple[InstructionChange, str, float]]:
    for name, scalar in scalars.items():
        if scalar != value and value not in (0.0, math.inf, -math.inf):
            yield InstructionChange.ARGUMENT, f"`{name}` for {value:.6g}", scalar
    for name, size in sizes.items():
        if value > 1 and math.isfinite(value) and value == round(value) and size != value:
            yield InstructionChange.SIZE, f"`{name}` for {value:.6g}", float(size)
        elif (
            size
            and _SMALLEST < value < 1
            and abs(1 / value - round(1 / value)) < 1e-3
            and size * value != 1
        ):
            yield InstructionChange.SIZE, f"1 / `{name}` for {value:.6g}", 1.0 / size
    if value == 0:
        other_numbers = [1.0, -math.inf]
    else:
        if math.isinf(value):
            other_numbers = [0.0]
        else:
            near = [10 * value, value / 10, 100 * value, value / 100, 2 * value, value / 2, -value]
            guards = [one for one in _GUARDS if 0 < value <= _SMALL]
            usual = [0.0, 1.0, -1.0, 1 / _LN2, -1 / _LN2, _LN2]
            other_numbers = [new for new in dict.fromkeys((*near, *guards, *usual)) if new != value]
    for new in other_numbers:
        yield InstructionChange.NUMBER, f"{new:.6g} for {value:.6g}", new


def _of_float_arithmetic(one: Instruction) -> Iterator[_Change]:
    """Yield an operation turned around, and parts of it."""
    if one.base in _TURNED and len(one.operands) == 3:
        turned = _TURNED[one.base]
        new = _named(one, (turned, *one.parts[1:]))
        yield InstructionChange.OPERATOR, f"`{turned}` for `{one.base}`", new
    if one.base in _ROOTS:
        yield from _parts(one, one.operands[1:2])
    if one.base in ("add", "sub", "mul", "div", "min", "max"):
        yield from _parts(one, one.operands[1:3])
    if one.base == "fma":
        target, a, b, c = one.operands
        rest = tuple(part for part in one.parts[1:] if part in ("rn", "ftz", "f32", "f64"))
        for words, name, operands in (
            ("the product without the term", "mul", (target, a, b)),
            ("without the second factor", "add", (target, a, c)),
            ("without the first factor", "add", (target, b, c)),
        ):
            new = _named(dataclasses.replace(one, operands=operands), (name, *rest))
            yield InstructionChange.PART, words, new
        yield from _parts(one, (c,))


def _parts(one: Instruction, operands: Sequence[Operand]) -> Iterator[_Change]:
    """Yield an instruction that gives one of its operands as it is."""
    bits = one.parts[-1].lstrip("fsub")
    if not bits.isdigit() or int(bits) < 16:
        return
    for operand in operands:
        side = list(one.operands).index(operand)
        moved = dataclasses.replace(one, operands=(one.operands[0], operand))
        exact = isinstance(operand, Immediate) and operand.kind != "int"
        kind = f"f{bits}" if exact else f"b{bits}"
        words = f"operand {side} of `{one.base}` alone"
        yield InstructionChange.PART, words, _named(moved, ("mov", kind))


def _of_comparison(one: Instruction, tests: _Tests) -> Iterator[_Change]:
    if len(one.parts) != 3 or len(one.operands) != 3 or not isinstance(one.operands[0], Register):
        return
    _, test, kind = one.parts
    if test in _BOUNDS:
        words = f"`{_BOUNDS[test]}` for `{test}`"
        yield InstructionChange.BOUND, words, _named(one, ("setp", _BOUNDS[test], kind))
    if one.operands[0].name in tests.loops:  # a loop that never ends tells nothing
        return
    nothing = Immediate(0, "int")
    for words, test in (("always true", "eq"), ("never true", "ne")):
        same = dataclasses.replace(one, operands=(one.operands[0], nothing, nothing))
        yield InstructionChange.BRANCH, words, _named(same, ("setp", test, "s32"))


def _of_parameter(function: Function, one: Instruction) -> Iterator[_Change]:
    """Yield the reading of another parameter of the same type."""
    address = one.operands[1]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return
    own = next((p for p in function.params if p.name == address.base.name), None)
    if own is None or address.offset or address.base.offset:
        return
    for number, other in enumerate(function.params):
        if other is not own and (other.type, other.count) == (own.type, own.count):
            words = f"parameter {number} for {list(function.params).index(own)}"
            new = _with(one, 1, dataclasses.replace(address, base=Symbol(other.name)))
            yield InstructionChange.PARAMETER, words, new


def _of_places(one: Instruction, sizes: Mapping[str, int]) -> Iterator[_Change]:
    """Yield other distances from the address of a load or a store, in elements."""
    bits = one.parts[-1].lstrip("fsub")
    width = int(bits) // 8 if bits.isdigit() else 0
    for number, operand in enumerate(one.operands):
        if not width or not isinstance(operand, Address) or not operand.offset:
            continue
        value = operand.offset // width
        others = {str(new): new for new in (value + 1, value - 1, 2 * value, value // 2, 0)}
        named = {f"`{name}`": size for name, size in sizes.items()}
        for words, new in (*others.items(), *named.items()):
            change = InstructionChange.SIZE if words in named else InstructionChange.INDEX
            moved = dataclasses.replace(operand, offset=new * width)
            if new != value:
                yield change, f"{words} for {value}", _with(one, number, moved)


def _of_integers(
    function: Function, place: int, tests: _Tests, sizes: Mapping[str, int]
) -> Iterator[_Change]:
    """Yield other constants and other integers in index arithmetic and in bounds."""
    one = function.body[place]
    shifts = one.base in ("shl", "shr")
    target = one.operands[0]
    # What is compared is the end of a loop, or a mask.
    bounds = one.base == "setp" or (isinstance(target, Register) and target.name in tests.compared)
    index = InstructionChange.BOUND if bounds else InstructionChange.INDEX
    for number, operand in enumerate(one.operands[1:], 1):
        if isinstance(operand, Immediate) and operand.kind == "int":
            value = operand.bits - (operand.bits >> 63 << 64)  # as a sum with -1 is written
            others = [value + 1, value - 1]
            others += [] if shifts else [2 * value, value // 2]
            for new in dict.fromkeys(n for n in others if n != value and n >= min(value, -1)):
                words = f"{new} for {value}"
                yield index, words, _with(one, number, Immediate(new % (1 << 64), "int"))
            for name, size in sizes.items() if not shifts else ():
                if size != value:
                    words = f"`{name}` for {value}"
                    new_size = _with(one, number, Immediate(size, "int"))
                    yield InstructionChange.SIZE, words, new_size
        elif isinstance(operand, Register):
            for rank, other in enumerate(_others(function, place, operand)):
                words = f"another integer ({rank + 1}) for operand {number} of `{one.base}`"
                yield InstructionChange.REGISTER, words, _with(one, number, other)


def _others(function: Function, place: int, register: Register) -> list[Register]:
    """Return integers of a type that exist before an instruction: arguments, indices, sums.

    The nearest come first, and beyond these the arguments, which a kernel reads at its begin.
    """
    kind = function.registers.get(register.name)
    found: dict[str, None] = {}
    for item in reversed(function.body[:place]):
        target = item.operands[0] if item.operands else None
        if not isinstance(target, Register) or function.registers.get(target.name) != kind:
            continue
        whole = item.base in _ARITHMETIC and item.parts[-1] in _INTEGERS
        given = item.base == "ld" and "param" in item.parts
        near = len(found) < _OTHERS and (whole or item.base == "mov")
        if (given or near) and target.name != register.name:
            found[target.name] = None
    return [Register(name) for name in found]


def _with(one: Instruction, number: int, operand: Operand) -> Instruction:
    operands = (*one.operands[:number], operand, *one.operands[number + 1 :])
    return dataclasses.replace(one, operands=operands)


def _named(one: Instruction, parts: tuple[str, ...]) -> Instruction:
    return dataclasses.replace(one, opcode=".".join(parts), parts=parts)

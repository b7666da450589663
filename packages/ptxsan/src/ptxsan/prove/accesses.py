"""What instructions touch: where, how many bytes, and what has to be shown of it."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsan import isa
from ptxsan.dataflow import definitions
from ptxsan.declarations import size_of
from ptxsan.errors import MachineError
from ptxsan.isa import Memory
from ptxsan.prove.machine import Allocation
from ptxsan.prove.state import Path, Value, word
from ptxsan.prove.terms import (
    FALSE,
    TRUE,
    Atom,
    Choice,
    Eq,
    Formula,
    Le,
    Poly,
    conjunction,
    decided,
    disjunction,
    negated,
    of,
)
from ptxsan.prove.transfer import Step
from ptxsan.syntax import Address, Immediate, Instruction, Register, Vector

_CASES = 8
_COMPARED = 8  # earlier integers of rising ones that one is compared with
_NULL_PAGE = 0xFFFF  # no memory lies at addresses that are as small


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access of one instruction on one path, with what it has to be: `goals`, all of them.

    `site` is the instruction's place in the program's body. `why` says what is not known where
    nothing can be shown.
    """

    instruction: Instruction
    what: str
    allocation: Allocation | None
    offset: Poly
    nbytes: int
    path: Path
    goals: tuple[tuple[str, Formula], ...]
    why: str = ""
    site: int = -1


def of_instruction(step: Step) -> list[Access] | str:
    """Return the accesses of an instruction, or why they are not followed."""
    one = step.one
    row, space = isa.row(one), isa.space_of(one)
    places = [operand for operand in one.operands if isinstance(operand, Address)]
    if row.objects or row.clocks or "tensor" in one.parts or "bulk" in one.parts:
        return f"'{one.opcode}' is not followed"
    try:
        width = width_in_bytes(one)
    except (KeyError, MachineError):
        width = 0
    alone = bool(width) and not row.joins and len(places) == 1
    match row.memory:
        case Memory.READ | Memory.WRITE | Memory.UPDATE if alone:
            what = {Memory.READ: "read", Memory.WRITE: "write"}.get(row.memory, "atomic")
            return _access(step, places[0], width, what, space)
        case Memory.READ | Memory.WRITE if "m8n8" in one.parts and len(places) == 1:
            # Each lane gives the address of a row of 16 bytes; of x1 and x2 not all are used.
            what = "read" if row.memory is Memory.READ else "write"
            return _access(step, places[0], 16, what, space)
        case Memory.COPY if not row.joins and len(places) == 2:
            return _copy(step, places)
        case _:
            return f"'{one.opcode}' is not followed"


def _copy(step: Step, places: list[Address]) -> list[Access] | str:
    """Return the accesses of `cp.async [to], [from], size{, read}{, policy of the cache}`."""
    sizes = [one for one in step.one.operands[2:] if isinstance(one, Immediate | Register)]
    if "L2::cache_hint" in step.one.parts:
        sizes = sizes[:-1]
    if not sizes or not isinstance(sizes[0], Immediate):
        return f"'{step.one.opcode}' with a size in a register is not followed"
    nbytes, source = sizes[0].bits, isa.space_read(step.one)
    written = _access(step, places[0], nbytes, "write", isa.space_of(step.one))
    if len(sizes) == 1:
        return [*written, *_access(step, places[1], nbytes, "read", source)]
    read = step.value(sizes[1])
    if isinstance(read, Poly):
        number = step.number(sizes[1], "u32")
        if step.holds(Le(number - nbytes)):
            some = conjunction([Le(of(1) - number)])
            inner = Step(
                step.thread, step.numbers, step.state, (*step.path, some), step.one, step.registers
            )
            return [*written, *_access(inner, places[1], nbytes, "read", source, most=number)]
    return [*written, *_access(step, places[1], nbytes, "read", source)]


def width_in_bytes(one: Instruction) -> int:
    """Return how many bytes one thread's load, store or atomic touches."""
    count = next((int(p[1:]) for p in one.parts if p in ("v2", "v4", "v8")), 1)
    return size_of(one.parts[-1]) * count


def _access(
    step: Step, place: Address, nbytes: int, what: str, space: str, *, most: Poly | None = None
) -> list[Access]:
    """Return an access at an address of a space, one for each allocation that it may be in."""
    value = step.value(place.base)
    base = value if isinstance(value, Poly) else of(step.unknown(64))
    found = []
    for path, address in _cases(step, base, step.path, 0):
        reached, address = step.thread.within(address + place.offset, space)
        allocation = step.thread.allocation_of(address)
        offset = address - allocation.base if allocation is not None else address
        goals: tuple[tuple[str, Formula], ...] = ()
        why = ""
        if allocation is None and reached == "global" and address.within(0, _NULL_PAGE):
            goals = (("through a null pointer, of", FALSE),)  # proved where no thread gets there
        elif allocation is None:
            why = "the address is of no allocation that is known"
        elif allocation.space != reached:
            why = f"an address of {allocation.space} memory is used as one of {reached} memory"
        elif allocation.space == "const" and what != "read":
            why = f"{allocation.name} is constant memory"
        elif allocation.length is None:
            why = f"no law was found for the length of {allocation.name}"
        else:
            end = offset + (most if most is not None else nbytes)
            address = allocation.base + offset
            rest = step.thread.atoms.remainder(address, of(nbytes)) if nbytes > 1 else of(0)
            goals = (
                ("begins before", Le(-offset)),
                ("ends behind", Le(end - allocation.length)),
                *(() if rest == of(0) else (("is not aligned", Eq(rest)),)),
            )
        found.append(
            Access(
                instruction=step.one, what=what, allocation=allocation, offset=offset,
                nbytes=nbytes, path=path, goals=goals, why=why,
            )
        )  # fmt: skip
    return found


def _cases(step: Step, address: Poly, path: Path, depth: int) -> list[tuple[Path, Poly]]:
    """Return what an address is on each path, pointers that were chosen taken apart."""
    if step.thread.allocation_of(address) is not None or depth >= _CASES:
        return [(path, address)]
    for monomial, factor in address.terms.items():
        if len(monomial) != 1 or factor != 1:
            continue
        meaning = monomial[0].meaning
        if isinstance(meaning, Choice):
            rest = address - of(monomial[0])
            return [
                *_cases(step, rest + meaning.then, (*path, meaning.formula), depth + 1),
                *_cases(step, rest + meaning.other, (*path, negated(meaning.formula)), depth + 1),
            ]
    return [(path, address)]


def remember(step: Step, found: list[Access]) -> None:
    """Note what a store leaves in local memory, and forget what it may have written over."""
    for one in found:
        if one.what == "read":
            continue
        if one.allocation is None:
            for name in step.state.words:
                del step.state.registers[name]
        elif one.allocation.space == "local":
            offset = one.offset.constant
            step.state.forget(one.allocation.name, offset, one.nbytes)
    places = _own_words(step, found)
    always = len(step.path) == len(found[0].path) and step.one.predicate is None if found else False
    if places is None or found[0].what != "write" or not always:
        return
    stored = step.one.operands[1]
    items = stored.items if isinstance(stored, Vector) else (stored,)
    for name, item in zip(places, items, strict=True):
        value = step.value(item)
        if isinstance(value, Poly):
            step.state.registers[name] = value


def recalled(step: Step, found: list[Access]) -> dict[str, Value] | None:
    """Return what a load from local memory gives, where all of it is known; else None."""
    places = _own_words(step, found)
    if places is None or found[0].what != "read":
        return None
    values = {
        name: step.state.registers.get(place)
        for name, place in zip(definitions(step.one), places, strict=False)
    }
    known = {name: value for name, value in values.items() if value is not None}
    return known if len(known) == len(places) == len(values) else None


def _own_words(step: Step, found: list[Access]) -> list[str] | None:
    """Return the names of the words of local memory that an access is to; None: it is to others.

    Only words as wide as the registers that they come from and go to.
    """
    kind = step.one.parts[-1]
    if kind[0] not in "usb" or kind[1:] not in ("32", "64") or len(found) != 1:
        return None
    (one,) = found
    offset, nbytes = one.offset.constant, int(kind[1:]) // 8
    if one.allocation is None or one.allocation.space != "local" or offset is None:
        return None
    operand = step.one.operands[0 if one.what == "read" else 1]
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) * nbytes != one.nbytes:
        return None
    for item in items:
        if isinstance(item, Register):
            width = step.registers.get(item.name, "")[1:]
            if width != kind[1:] or item.name == "_":
                return None
    return [
        word(one.allocation.name, offset + number * nbytes, nbytes) for number in range(len(items))
    ]


def loaded(step: Step, found: list[Access]) -> dict[str, Value] | None:
    """Return the values that a load may give, where more is known than that they are data."""
    one = step.one
    if not isa.is_load(one) or len(found) != 1:
        return None
    kind = one.parts[-1]
    allocation = found[0].allocation
    if kind[0] not in "usb" or not kind[1:].isdigit():
        return None
    width = int(kind[1:])
    operand = one.operands[0]
    items = operand.items if isinstance(operand, Vector) else (operand,)
    targets = tuple(one.name for one in items if isinstance(one, Register) and one.name != "_")
    values: dict[str, Value] = {}
    for number, name in enumerate(targets):
        signed = kind[0] == "s"
        low = -(1 << (width - 1)) if signed else 0
        atom = step.thread.atoms.symbol(
            f"data of line {one.line}", low, low + (1 << width) - 1, data=True
        )
        values[name] = of(atom)
        known = allocation.values if allocation is not None else None
        if known is not None and allocation is not None and width == 8 * allocation.value_bytes:
            # The bits are those of a number within bounds: as signed they are that number.
            (least, _), (_, most) = known[0].interval(), known[1].interval()
            bottom, top = -(1 << (width - 1)), low + (1 << width) - 1
            atom.low = bottom if least is None else max(bottom, least)
            atom.high = top if most is None else min(top, most)
            atom.facts = (Le(known[0] - of(atom)), Le(of(atom) - known[1]))
            if allocation.rising:
                atom.facts += _rising(allocation, found[0].offset + number * width // 8, atom)
    return values


def _rising(allocation: Allocation, place: Poly, atom: Atom) -> tuple[Formula, ...]:
    """Return what holds of an integer at a place of memory that holds rising ones.

    It holds of places outside of the memory as well, if one thinks of the first and the last
    integer going on there.
    """
    assert allocation.values is not None
    assert allocation.length is not None
    low, high = allocation.values
    value, last = of(atom), allocation.length - allocation.value_bytes
    found = [
        disjunction([Le(of(1) - place), Le(value - low)]),
        disjunction([Le(place - last + 1), Le(high - value)]),
    ]
    for other, earlier in allocation.read[-_COMPARED:]:
        least, most = (place - other).interval()
        if least is not None and least >= 0:
            found.append(Le(of(earlier) - value))
        if most is not None and most <= 0:
            found.append(Le(value - of(earlier)))
    allocation.read.append((place, atom))
    return tuple(one for one in found if one != TRUE)


def of_parameter(step: Step) -> list[Access]:
    """Return the accesses of a load from parameter space that are not plainly inside."""
    one = step.one
    place = isa.parameter(one)
    if place is None or isa.row(one).memory is not Memory.READ:
        return []
    width = width_in_bytes(one)
    found = _access(step, place, width, "read", "param")
    plain = all(
        not one.why and all(decided(goal) == TRUE for _, goal in one.goals) for one in found
    )
    return [] if plain else found


def loaded_parameter(step: Step) -> dict[str, Value] | None:
    """Return what a load from parameter space gives; None where its place is not known."""
    one = step.one
    place = isa.parameter(one)
    assert place is not None
    if isa.row(one).memory is not Memory.READ:
        return None
    address = step.value(place.base)
    if not isinstance(address, Poly):
        return None
    allocation = step.thread.allocation_of(address)
    if allocation is None or allocation.space != "param":
        return None
    start = (address - allocation.base).constant
    if start is None:
        return None
    nbytes = size_of(one.parts[-1])
    return {
        name: step.thread.parameter(allocation.name, start + place.offset + number * nbytes, nbytes)
        for number, name in enumerate(definitions(one))
    }

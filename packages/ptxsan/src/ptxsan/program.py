"""One kernel ready to be compiled: flat body, blocks, addresses of its variables.

Every variable lies in a region of its own, far from the next one, so that an access that leaves
its variable hits nobody else's: which symbol a pointer was meant for can be read off the address,
whatever integer arithmetic it went through. Kernels that pack shared addresses into descriptors
(wgmma, tensor copies) need small addresses; their variables lie closer together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ptxsan import isa
from ptxsan.dataflow import Block, basic_blocks, uses
from ptxsan.declarations import size_of
from ptxsan.errors import MachineError
from ptxsan.inline import flatten
from ptxsan.isa import Memory
from ptxsan.syntax import Address, Declaration, Function, Instruction, Module, Register, Symbol

SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 2 << 56
PARAM_WINDOW = 3 << 56
FUNCTION_WINDOW = 4 << 56  # addresses of device functions: nobody can read or write there
WORKSPACE = "the grid's workspace"  # what cooperative launches find by %envreg1 and %envreg2
CLOCKS = ("%clock", "%globaltimer")
BESIDE = "|"  # between the names of kernels that run at once, as one program
_FAR, _NEAR = 1 << 20, 1 << 12
_FIRST = 1 << 10  # address 0 is nobody's
_MOST = 1 << 27  # shared addresses above carry the rank of another block of the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable with its place: `address` in its window, `bytes` (0: dynamic shared memory)."""

    name: str
    address: int
    bytes: int
    align: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A kernel parameter: whose it is, its byte offset and size in parameter space.

    `is_number`: the kernel declares which of its parameters are pointers, and this is none.
    """

    kernel: str
    name: str
    offset: int
    bytes: int
    align: int
    is_number: bool = False


@dataclass(frozen=True, kw_only=True)  # no slots: what is asked at every launch is kept
class Program:
    """A kernel with calls expanded; `granule` maps a space to its smallest access in bytes."""

    name: str
    body: tuple[Instruction, ...]
    labels: dict[str, int]
    blocks: tuple[Block, ...]
    registers: dict[str, str]
    shared: tuple[Variable, ...]
    local: tuple[Variable, ...]
    globals: tuple[Declaration, ...]
    params: tuple[Parameter, ...]
    granule: dict[str, int]
    directives: dict[str, tuple[int, ...]]
    target: str
    functions: dict[str, int]

    @cached_property
    def read(self) -> frozenset[str]:
        """Every register that it reads, special ones among them."""
        return frozenset(name for one in self.body for name in uses(one))

    @cached_property
    def reads_clocks(self) -> bool:
        """Whether it looks at the time."""
        return any(name.startswith(CLOCKS) for name in self.special)

    @cached_property
    def special(self) -> frozenset[str]:
        """The special registers that it reads: those of its threads, of blocks and of time."""
        return frozenset(name for name in self.read if name not in self.registers)

    @cached_property
    def calls(self) -> frozenset[str]:
        """What it calls, by name: what is printed, ends the launch or asks for memory."""
        return frozenset(one.parts[-1] for one in self.body if isa.is_call(one))

    @cached_property
    def overlaps(self) -> bool:
        """Whether it orders itself among other launches (griddepcontrol)."""
        return any(one.base in isa.OVERLAPPING for one in self.body)

    @cached_property
    def speaks_to_system(self) -> bool:
        """Whether it has strong accesses or fences whose scope is the system.

        Volatile accesses are such: PTX ISA, "Memory Consistency Model", relaxed at .sys.
        """
        return any(isa.scope_of(one) == "sys" for one in self.body)

    @cached_property
    def asynchronous(self) -> bool:
        """Whether it has mbarriers, bulk copies or clusters: then vector clocks are kept."""
        return any(map(isa.is_asynchronous, self.body))

    @cached_property
    def copies(self) -> bool:
        """Whether it has asynchronous copies: they move shadows, also where none were wanted."""
        return any(isa.row(one).memory is Memory.COPY for one in self.body)

    @cached_property
    def has_objects(self) -> bool:
        """Whether it has mbarriers or bulk copies."""
        return any(isa.row(one).objects for one in self.body)

    @cached_property
    def has_tensor_memory(self) -> bool:
        """Whether it uses tensor memory."""
        return any(map(isa.is_of_tensor_memory, self.body))

    @cached_property
    def has_pairs(self) -> bool:
        """Whether pairs of blocks work together on tensor memory."""
        return any("cta_group::2" in one.parts for one in self.body)

    @property
    def param_bytes(self) -> int:
        """The bytes of all parameters."""
        return max((one.offset + one.bytes for one in self.params), default=0)


def build(module: Module, kernel: str) -> Program:
    """Return the program of one entry, or of several whose names BESIDE joins.

    Raises MachineError where an entry is unknown or cannot be flattened.
    """
    entries = [_entry(module, name) for name in kernel.split(BESIDE)]
    flat = flatten(module, *entries)
    every = {**module.variables, **flat.variables}
    body = tuple(flat.body)
    near = any(isa.row(one).near for one in body)
    used = {one.name for one in symbols_in(body)} | set(flat.variables)
    asks_for_workspace = any(
        isinstance(operand, Register) and operand.name in ("%envreg1", "%envreg2")
        for one in body
        for operand in one.operands
    )
    parameters, offset = [], 0
    for entry, parameter in ((one, each) for one in entries for each in one.params):
        # `.ptr .align` is that of the memory behind a pointer, not the pointer's.
        item = size_of(parameter.type)
        align = item if item > 1 else max(parameter.align, 1)
        offset = -(-offset // align) * align
        size = parameter.count * item
        declares = any(one.pointer for one in entry.params)
        parameters.append(
            Parameter(
                kernel=entry.name, name=parameter.name, offset=offset, bytes=size, align=align,
                is_number=declares and not parameter.pointer,
            )
        )  # fmt: skip
        offset += size
    return Program(
        name=kernel,
        body=body,
        labels=flat.labels,
        blocks=basic_blocks(body, flat.labels),
        registers=flat.registers,
        shared=_place(_in(every, "shared", used), near=near),
        local=_place(_in(every, "local", used), near=False),
        globals=(
            *_variables(module),
            *([_WORKSPACE] if asks_for_workspace else ()),
        ),
        params=tuple(parameters),
        granule={space: _granule(body, space) for space in ("global", "shared")},
        directives=entries[0].directives if len(entries) == 1 else {},
        target=module.target,
        functions=function_addresses(module),
    )


def variables_of(module: Module) -> list[Declaration]:
    """Return the global and constant variables of a module."""
    return [one for one in module.variables.values() if one.space in ("global", "const")]


def _variables(module: Module) -> list[Declaration]:
    """Return those of its variables that a launch has; all kernels of a module have the same.

    Libraries of templates define thousands of constants which no function names, and a launch
    has room for 4096 memories.
    """
    found = variables_of(module)
    if len(found) <= _MANY_VARIABLES:
        return found
    named = {
        one.name for function in module.functions.values() for one in symbols_in(function.body)
    }
    named |= {symbol.name for one in found for _, symbol in one.addresses}
    return [one for one in found if one.name in named]


def _entry(module: Module, name: str) -> Function:
    found = module.functions.get(name)
    if found is None or not found.entry:
        known = ", ".join(module.entries) or "none"
        raise MachineError(f"no kernel '{name}' in the module (kernels: {known})")
    return found


def function_addresses(module: Module) -> dict[str, int]:
    """Return the address of each device function, by name: what pointers to them hold."""
    names = [name for name, one in module.functions.items() if not one.entry]
    return {name: FUNCTION_WINDOW + 16 * number for number, name in enumerate(names, start=1)}


_MANY_VARIABLES = 1024
_WORKSPACE = Declaration(name=WORKSPACE, space="global", type="b32", count=16, align=16)


def _in(variables: dict[str, Declaration], space: str, used: set[str]) -> list[Declaration]:
    found = [one for one in variables.values() if one.space == space and one.name in used]
    return sorted(found, key=lambda one: one.extern)  # the dynamic array comes last


def symbols_in(body: Iterable[Instruction]) -> Iterable[Symbol]:
    """Yield what instructions name: variables, parameters, labels, functions."""
    for instruction in body:
        for operand in instruction.operands:
            if isinstance(operand, Symbol):
                yield operand
            elif isinstance(operand, Address) and isinstance(operand.base, Symbol):
                yield operand.base


def _place(variables: list[Declaration], *, near: bool) -> tuple[Variable, ...]:
    gap = _NEAR if near else _FAR
    found, address = [], _FIRST
    dynamic = 0  # all `extern` arrays begin at the same place
    for one in variables:
        size = 0 if one.extern else one.count * size_of(one.type)
        align = max(one.align, (1024 if one.extern else 128) if near else 16)
        address = -(-address // align) * align
        if one.extern:
            dynamic = dynamic or address
        place = dynamic if one.extern else address
        found.append(Variable(name=one.name, address=place, bytes=size, align=one.align))
        if one.extern and dynamic != address:
            continue
        address += size + gap if near else -(-(size + gap) // gap) * gap
    if address >= _MOST:
        raise MachineError(f"{len(variables)} variables in one space are too many")
    return tuple(found)


def _granule(body: Iterable[Instruction], space: str) -> int:
    """Return the smallest number of bytes that the kernel reads or writes at once, up to 4.

    Accesses are aligned to their size, so race records of this many bytes are exact.
    """
    smallest = 4
    for one in body:
        row = isa.row(one)
        if row.memory in (Memory.NONE, Memory.HINT) or row.rows:
            continue
        if not isa.names_space(one, space):
            continue
        try:
            smallest = min(smallest, size_of(one.parts[-1]))
        except KeyError:
            continue
    return max(1, smallest)

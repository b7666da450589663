"""The syntax tree of a PTX module, as plain data.

Names follow the PTX ISA manual. An instruction keeps its whole spelling (`ld.global.nc.u16`) and
its parts, so that whoever gives it a meaning decides which parts matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the program that was compiled to PTX, from `.loc`; `inlined_at` is its caller's.

    Two places of one line are the same line: `column` tells them apart.
    """

    file: str
    line: int
    inlined_at: SourceLine | None = None
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual or special register (`%f12`, `%tid.x`); `negated` is `!%p1` of a predicate."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: an integer (64-bit two's complement) or the bits of an f32 or f64."""

    bits: int
    kind: str  # "int", "f32" or "f64"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, function, parameter or label; `offset` bytes are added."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; `coordinates` are those of a tensor copy, `[map, {x, y}]`."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """`{%f1, %f2}`; the sink `_` is Register("_")."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`%r1|%p1`: two destinations of shfl, setp or match."""

    first: Register
    second: Register


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)`: the results or the arguments of a call."""

    items: tuple[Operand, ...]


Operand = Register | Immediate | Symbol | Address | Vector | Pair | Group


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `@!%p1 ld.global.f32 %f1, [%rd2+4];`.

    `opcode` is the whole spelling, `parts` its pieces between dots, `line` the 1-based line of
    the PTX text.
    """

    opcode: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    line: int
    predicate: Register | None = None
    source: SourceLine | None = None

    @property
    def base(self) -> str:
        """The first part of the opcode: `ld`."""
        return self.parts[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A variable: `.shared .align 16 .b8 tile[1024];`.

    `space` is reg, global, const, shared, local or param; `type` the element's (`b8`, `f32`);
    `count` the number of elements (0: `extern` with unknown length); `initial` the bytes of an
    initialiser, where symbols whose address is stored are listed as (byte offset, symbol);
    `pointer` says that a parameter is declared to be one (`.ptr`).
    """

    name: str
    space: str
    type: str
    count: int = 1
    align: int = 0
    initial: bytes | None = None
    addresses: tuple[tuple[int, Symbol], ...] = ()
    extern: bool = False
    pointer: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A `.entry` or a `.func`; `body` is empty for a mere declaration.

    `registers` maps each register to its type (`f32`, `b64`, `pred`); `labels` maps a label to the
    index in `body` of the instruction behind it; `directives` holds `.maxntid` and its like.
    """

    name: str
    entry: bool
    params: tuple[Declaration, ...] = ()
    results: tuple[Declaration, ...] = ()
    body: tuple[Instruction, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    variables: tuple[Declaration, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Module:
    """A parsed PTX text: its functions and module-scope variables by name."""

    version: str
    target: str
    functions: dict[str, Function]
    variables: dict[str, Declaration]
    text: str

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the kernels, in the order of the text."""
        return tuple(name for name, function in self.functions.items() if function.entry)

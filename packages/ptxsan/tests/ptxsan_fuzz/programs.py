"""Random PTX kernels over the instructions of `table`, deterministic by seed.

A kernel loads its registers from an input buffer, runs straight-line code, diverging branches,
loops, exchanges between lanes and through shared memory, and stores every register. One block of
THREADS threads runs it. Words per thread: REGISTERS of each width, predicates as bits, LEAVES
approximate results.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxsan_fuzz.table import ROWS, Row

THREADS = 32
REGISTERS = {"h": 6, "r": 12, "d": 5, "p": 5}
LEAVES = 3
INPUT_WORDS = 32  # 32-bit words of input a thread
OUTPUT_WORDS = 12 + 2 * 5 + 3 + 1 + LEAVES + 1  # r, d, h in pairs, p as bits, leaves, padding

EXACT_WORDS = OUTPUT_WORDS - 1 - LEAVES  # before the approximate results

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"

_SIGNS = ("neg.f", "abs.f", "neg.bf", "abs.bf", "neg.ftz", "abs.ftz")  # of a NaN: unspecified
# ptxas compares -(-32768) as 32768, and drops repeats of r = hi(x * y) + r, also in loops.
_UNSOUND = (*_SIGNS, "neg.s16", "mad.hi")
_LEAVES = tuple(row for row in ROWS if row.leaf)
_ANY = tuple(row for row in ROWS if not row.leaf)
_CALM = tuple(row for row in _ANY if not row.opcode.startswith(_UNSOUND))
PROGRAM_ROWS = _CALM + _LEAVES
# Results of which ptxas believes too much: masks as floats, integers that were an f16.
_MISTAKEN = (
    "set.",
    *(row.opcode for row in _ANY if row.opcode.endswith("64.f16") and row.result == "d"),
)


def _by_base(rows: tuple[Row, ...]) -> dict[str, tuple[Row, ...]]:
    found: dict[str, tuple[Row, ...]] = {}
    for row in rows:
        base = row.opcode.partition(".")[0]
        found[base] = (*found.get(base, ()), row)
    return found


_CALM_BY_BASE, _ANY_BY_BASE = _by_base(_CALM), _by_base(_ANY)
_TAKE_CONSTANTS = frozenset(
    ["add", "sub", "mul", "mad", "and", "or", "xor", "min", "max", "setp", "fma", "div"]
)
_CONSTANT_FLOATS = (0, 0x80000000, 0x3F800000, 0x3FB8AA3B, 0xC0000000, 0x7F800000, 0x00400000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kernel's text (without header) and the approximate opcodes of its leaves, in order."""

    name: str
    text: str
    leaves: tuple[str, ...]


def generate(seed: int, *, careful: bool = True) -> Program:
    """Return the program of a seed: an entry (.u64 input, .u64 output) for one block of THREADS.

    Careful programs avoid what ptxas is known to assemble into something else than PTX says, and
    what PTX leaves open (docs/machine-numerics.md); others hold all of it.
    """
    return _Writer(seed, careful=careful).program()


def module(programs: list[Program]) -> str:
    """Return one PTX module that holds these programs."""
    return HEADER + "\n".join(program.text for program in programs)


def program_digest(stored: NDArray[np.uint32]) -> int:
    """Return the CRC of uint32[THREADS, OUTPUT_WORDS] without approximate results."""
    return zlib.crc32(np.ascontiguousarray(stored[:, :EXACT_WORDS]).tobytes())


class _Writer:
    """Builds one program; `_lines` is its body so far."""

    def __init__(self, seed: int, *, careful: bool) -> None:
        self._careful = careful
        self._random = random.Random(seed)
        self._name = f"fuzz{seed}"
        self._lines: list[str] = []
        self._labels = 0
        self._leaves: list[str] = []

    def program(self) -> Program:
        statements = self._random.randrange(12, 28)
        for _ in range(statements):
            self._statement(depth=0)
        for index in range(LEAVES):
            row = self._random.choice(_LEAVES)
            sources = ", ".join(self._pick(letter) for letter in row.sources)
            self._lines.append(f"{row.opcode} %leaf{index}, {sources};")
            self._leaves.append(row.opcode)
        text = "\n".join([*self._prologue(), *self._lines, *_epilogue(), "ret;", "}"])
        return Program(name=self._name, text=text, leaves=tuple(self._leaves))

    def _prologue(self) -> list[str]:
        sizes = " ".join(
            f".reg .{kind} %{letter}<{REGISTERS[letter]}>;"
            for letter, kind in (("h", "b16"), ("r", "b32"), ("d", "b64"), ("p", "pred"))
        )
        return [
            f".visible .entry {self._name}(.param .u64 input, .param .u64 output)",
            "{",
            sizes,
            f".reg .b32 %leaf<{LEAVES}>; .reg .b32 %tmp<8>; .reg .b64 %at<4>; .reg .b16 %half<4>;",
            ".reg .pred %q<2>;",
            f".shared .align 16 .b8 tile[{THREADS * 16}];",
            ".local .align 16 .b8 own[16];",
            "ld.param.u64 %at0, [input];",
            "ld.param.u64 %at1, [output];",
            "mov.u32 %tmp0, %tid.x;",
            f"mad.wide.u32 %at0, %tmp0, {4 * INPUT_WORDS}, %at0;",
            f"mad.wide.u32 %at1, %tmp0, {4 * OUTPUT_WORDS}, %at1;",
            "mov.u32 %tmp1, tile;",
            "mad.lo.u32 %tmp1, %tmp0, 16, %tmp1;",
            *_load_registers(),
        ]

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def _pick(self, letter: str) -> str:
        return f"%{letter}{self._random.randrange(REGISTERS[letter])}"

    def _source(self, row: Row, position: int) -> str:
        """Return an operand: now and then a constant, where the type takes one."""
        parts = row.opcode.split(".")
        takes = row.sources[position] == "r" and parts[0] in _TAKE_CONSTANTS
        if takes and self._random.random() < 0.1:
            if parts[-1] == "f32":
                return f"0f{self._random.choice(_CONSTANT_FLOATS):08X}"
            if parts[-1] in ("s32", "u32", "b32"):
                return str(self._random.choice([0, 1, 2, 7, 31, 32, -1, 65535, 0x3F800000]))
        return self._pick(row.sources[position])

    def _statement(self, depth: int) -> None:
        draw = self._random.random()
        if depth < 2 and draw < 0.08:
            self._branch(depth)
        elif depth < 2 and draw < 0.12:
            self._loop(depth)
        elif depth == 0 and draw < 0.24:
            self._exchange()
        elif draw < 0.30:
            self._memory()
        else:
            self._operation()

    def _operation(self) -> None:
        """Half by base opcode, half by spelling: `cvt` alone has a third of the spellings."""
        rows, by_base = (_CALM, _CALM_BY_BASE) if self._careful else (_ANY, _ANY_BY_BASE)
        if self._random.random() < 0.5:
            rows = by_base[self._random.choice(sorted(by_base))]
        row = self._random.choice(rows)
        guarded = self._random.random() < 0.15
        if self._careful and row.opcode.startswith("testp"):
            guarded = False  # ptxas drops the guard of testp
        self._emit(row, guarded=guarded)

    def _emit(self, row: Row, *, guarded: bool) -> None:
        sources: list[str] = []
        for position in range(len(row.sources)):
            # Twice the same register: assemblers turn min(x, x) into x, also of a NaN, and
            # and(p, p) into p, also where p is overwritten before that is used.
            while (source := self._source(row, position)) in sources and self._careful:
                pass
            sources.append(source)
        if self._careful and row.opcode.endswith(".f64") and len(sources) > 1:
            self._one_nan(sources)
        if self._careful and row.opcode.endswith("64") and row.sources == "dr":
            # Make the count of a 64-bit shift an integer's result. ptxas converts a .b32 register
            # that a float instruction wrote, as a float, to 64 bits.
            self._lines.append(f"xor.b32 %tmp7, {sources[1]}, 1;")
            sources[1] = "%tmp7"
        if row.divisor is not None:
            letter, sign = row.sources[row.divisor], "s" if ".s" in row.opcode else "u"
            bits = {"h": 16, "r": 32, "d": 64}[letter]
            scratch = {"h": "%half3", "r": "%tmp7", "d": "%at3"}[letter]
            picked = self._pick(letter)
            largest = (1 << (bits - (1 if sign == "s" else 0))) - 1
            self._lines.append(f"and.b{bits} {scratch}, {picked}, {largest};")
            self._lines.append(f"or.b{bits} {scratch}, {scratch}, 1;")
            sources[row.divisor] = scratch
        guard = ""
        if guarded:
            guard = f"@{self._random.choice(['', '!'])}{self._pick('p')} "
        result = self._pick(row.result)
        self._lines.append(f"{guard}{row.opcode} {', '.join([result, *sources])};")
        if self._careful and row.opcode.startswith(_MISTAKEN):
            kind = "b64" if row.result == "d" else "b32"
            self._lines.append(f"xor.{kind} {result}, {result}, 6;")

    def _one_nan(self, sources: list[str]) -> None:
        """Make every NaN operand the same: whose payload wins is the assembler's choice."""
        for source in sources:
            if source.startswith("%d"):
                self._lines.append(f"setp.nan.f64 %q1, {source}, {source};")
                self._lines.append(f"selp.b64 {source}, {0x7FF8 << 48}, {source}, %q1;")

    def _branch(self, depth: int) -> None:
        other, end = self._label(), self._label()
        self._lines.append(f"@{self._pick('p')} bra {other};")
        for _ in range(self._random.randrange(1, 4)):
            self._statement(depth + 1)
        self._lines += [f"bra {end};", f"{other}:"]
        for _ in range(self._random.randrange(1, 4)):
            self._statement(depth + 1)
        self._lines.append(f"{end}:")

    def _loop(self, depth: int) -> None:
        """Up to four turns, a different number for each lane."""
        head, counter = self._label(), f"%tmp{4 + depth}"
        self._lines.append(f"and.b32 {counter}, {self._pick('r')}, 3;")
        self._lines.append(f"{head}:")
        for _ in range(self._random.randrange(1, 4)):
            self._statement(depth + 1 if depth else 2)
        self._lines += [
            f"sub.u32 {counter}, {counter}, 1;",
            f"setp.ge.s32 %q0, {counter}, 0;",
            f"@%q0 bra {head};",
        ]

    def _exchange(self) -> None:
        """Convergent code only: shuffles, votes, reductions over the warp, neighbours in memory."""
        r = self._random
        draw = r.randrange(6)
        if draw <= 1:
            way, limit = r.choice([("idx", 31), ("down", 31), ("bfly", 31), ("up", 0)])
            lane = r.choice([str(r.randrange(32)), self._pick("r")])
            pair = f"{self._pick('r')}|{self._pick('p')}"
            self._lines.append(
                f"shfl.sync.{way}.b32 {pair}, {self._pick('r')}, {lane}, {limit}, -1;"
            )
        elif draw == 2:
            kind = r.choice(["all", "any", "uni"])
            self._lines.append(f"vote.sync.{kind}.pred {self._pick('p')}, {self._pick('p')}, -1;")
        elif draw == 3:
            self._lines.append(f"vote.sync.ballot.b32 {self._pick('r')}, {self._pick('p')}, -1;")
        elif draw == 4:
            kind = r.choice(
                ["add.u32", "add.s32", "min.u32", "max.s32", "min.s32", "max.u32", "and.b32",
                 "or.b32", "xor.b32"]
            )  # fmt: skip
            self._lines.append(f"redux.sync.{kind} {self._pick('r')}, {self._pick('r')}, -1;")
        else:
            self._neighbour()

    def _neighbour(self) -> None:
        r = self._random
        shift = r.randrange(1, THREADS)
        self._lines += [
            "bar.sync 0;",
            f"st.shared.v2.b32 [%tmp1], {{{self._pick('r')}, {self._pick('r')}}};",
            f"st.shared.b64 [%tmp1+8], {self._pick('d')};",
            "bar.sync 0;",
            f"add.u32 %tmp2, %tmp0, {shift};",
            f"and.b32 %tmp2, %tmp2, {THREADS - 1};",
            "mov.u32 %tmp3, tile;",
            "mad.lo.u32 %tmp2, %tmp2, 16, %tmp3;",
        ]
        kind, letter = r.choice(
            [("b32", "r"), ("u16", "r"), ("s8", "r"), ("b64", "d"), ("s16", "d"), ("u8", "h")]
        )
        width = {"b32": 4, "u16": 2, "s8": 1, "b64": 8, "s16": 2, "u8": 1}[kind]
        offset = r.randrange(16 // width) * width
        self._lines.append(f"ld.shared.{kind} {self._pick(letter)}, [%tmp2+{offset}];")
        self._lines.append("bar.sync 0;")

    def _memory(self) -> None:
        """Loads of the thread's own input in odd widths, and a round trip through local memory."""
        r = self._random
        if r.random() < 0.5:
            offset = 4 * r.randrange(INPUT_WORDS - 4)
            kind, letter, width = r.choice(
                [("u8", "r", 1), ("s8", "h", 1), ("s16", "d", 2), ("u16", "h", 2), ("s32", "d", 4),
                 ("b32", "r", 4)]
            )  # fmt: skip
            offset += width * r.randrange(4 // width)
            self._lines.append(f"ld.global.{kind} {self._pick(letter)}, [%at0+{offset}];")
            return
        self._lines += [
            f"st.local.b64 [own], {self._pick('d')};",
            f"st.local.b32 [own+8], {self._pick('r')};",
            f"st.local.b16 [own+12], {self._pick('h')};",
            *self._byte("[own+14]", "r"),
            *self._byte("[own+15]", "h"),
            f"ld.local.v2.b32 {{{self._pick('r')}, %tmp3}}, [own+8];",
            f"ld.local.s16 {self._pick('r')}, [own+{2 * r.randrange(8)}];",
        ]

    def _byte(self, place: str, letter: str) -> list[str]:
        """Store a register's low byte; ptxas converts a float's register to u8 by its value."""
        source = self._pick(letter)
        if not self._careful:
            return [f"st.local.u8 {place}, {source};"]
        scratch, kind = ("%tmp7", "b32") if letter == "r" else ("%half3", "b16")
        return [f"xor.{kind} {scratch}, {source}, 1;", f"st.local.u8 {place}, {scratch};"]


def _load_registers() -> list[str]:
    lines, word = [], 0
    for index in range(0, REGISTERS["r"], 4):
        names = ", ".join(f"%r{index + k}" for k in range(4))
        lines.append(f"ld.global.v4.b32 {{{names}}}, [%at0+{4 * word}];")
        word += 4
    for index in range(REGISTERS["d"]):
        lines.append(f"ld.global.b64 %d{index}, [%at0+{4 * word}];")
        word += 2
    for index in range(REGISTERS["h"]):
        lines.append(f"ld.global.b16 %h{index}, [%at0+{4 * word + 2 * index}];")
    lines.append(f"ld.global.b32 %tmp3, [%at0+{4 * word + 12}];")
    for index in range(REGISTERS["p"]):
        lines.append(f"and.b32 %tmp2, %tmp3, {1 << index};")
        lines.append(f"setp.ne.u32 %p{index}, %tmp2, 0;")
    return lines


def _epilogue() -> list[str]:
    lines, word = [], 0
    for index in range(REGISTERS["r"]):
        lines.append(f"st.global.b32 [%at1+{4 * word}], %r{index};")
        word += 1
    for index in range(REGISTERS["d"]):
        lines.append(f"st.global.b64 [%at1+{4 * word}], %d{index};")
        word += 2
    for index in range(REGISTERS["h"]):
        lines.append(f"st.global.b16 [%at1+{4 * word + 2 * index}], %h{index};")
    word += REGISTERS["h"] // 2
    lines.append("mov.u32 %tmp2, 0;")
    for index in range(REGISTERS["p"]):
        lines.append(f"selp.b32 %tmp3, {1 << index}, 0, %p{index};")
        lines.append("or.b32 %tmp2, %tmp2, %tmp3;")
    lines.append(f"st.global.b32 [%at1+{4 * word}], %tmp2;")
    word += 1
    for index in range(LEAVES):
        lines.append(f"st.global.b32 [%at1+{4 * word}], %leaf{index};")
        word += 1
    return lines

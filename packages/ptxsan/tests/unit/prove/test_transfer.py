"""What instructions do to symbols, beside what the machine does to numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.prove.law import LaunchLaw, Number, Scope
from ptxsan.prove.machine import Axes, Domain, Thread
from ptxsan.prove.solver import Solver
from ptxsan.prove.state import Numbers, State
from ptxsan.prove.terms import Atom, Atoms, Poly, atom_value, holds, of, value_of
from ptxsan.prove.transfer import Step, transfer_of
from ptxsan_support.ptx import HEADER, buffer_of, execute

_THREADS = 64
_VALUES = (0, 1, 2, 3, 5, 31, 32, 33, 127, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
FORMS = (
    "add.s32 %r4, %r2, %r3;", "sub.s32 %r4, %r2, %r3;", "mul.lo.s32 %r4, %r2, %r3;",
    "mul.hi.s32 %r4, %r2, %r3;", "mul.hi.u32 %r4, %r2, %r3;", "mad.lo.s32 %r4, %r2, %r3, %r2;",
    "neg.s32 %r4, %r2;", "abs.s32 %r4, %r2;", "min.s32 %r4, %r2, %r3;", "max.u32 %r4, %r2, %r3;",
    "min.u32 %r4, %r2, %r3;", "max.s32 %r4, %r2, %r3;", "and.b32 %r4, %r2, %r3;",
    "or.b32 %r4, %r2, %r3;", "xor.b32 %r4, %r2, %r3;", "not.b32 %r4, %r2;",
    "and.b32 %r4, %r2, 31;", "and.b32 %r4, %r2, -32;", "and.b32 %r4, %r2, 992;",
    "and.b32 %r4, %r2, 2147483644;", "xor.b32 %r4, %r2, -1;", "or.b32 %r4, %r2, 7;",
    "shl.b32 %r4, %r2, 3;", "shr.u32 %r4, %r2, 5;", "shr.s32 %r4, %r2, 5;", "shl.b32 %r4, %r2, 40;",
    "shr.s32 %r4, %r2, 40;", "bfe.u32 %r4, %r2, 5, 7;", "div.u32 %r4, %r2, 7;",
    "rem.u32 %r4, %r2, 7;", "mul.hi.u32 %r4, %r2, -1840700269;", "add.s32 %r4, %r2, -1;",
    "and.b32 %r6, %r2, 508; shl.b32 %r7, %r3, 10; or.b32 %r8, %r6, %r7; or.b32 %r4, %r8, 512;",
    "and.b32 %r6, %r2, 127; shl.b32 %r7, %r6, 2; or.b32 %r8, %r7, 1536; xor.b32 %r4, %r8, 516;",
    "and.b32 %r6, %r2, 48; and.b32 %r7, %r3, 15; shl.b32 %r8, %r7, 4; or.b32 %r4, %r6, %r8;",
    "and.b32 %r6, %r2, -32; shl.b32 %r7, %r6, 3; and.b32 %r8, %r2, 31; or.b32 %r4, %r7, %r8;",
    "cvt.u32.u16 %r4, %h1;", "selp.b32 %r4, %r2, %r3, %p1;", "mov.u32 %r4, %r2;",
)  # fmt: skip
COMPARISONS = tuple(
    f"setp.{word}.{kind} %p2, %r2, %r3; selp.b32 %r4, 1, 0, %p2;"
    for word in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("s32", "u32")
)  # fmt: skip
WIDE = tuple(
    f"{first} cvt.u32.u64 %r4, %rd5; shr.u64 %rd6, %rd5, 32; cvt.u32.u64 %r5, %rd6;"
    for first in (
        "mul.wide.s32 %rd5, %r2, %r3;", "mul.wide.u32 %rd5, %r2, %r3;", "cvt.s64.s32 %rd5, %r2;",
        "cvt.u64.u32 %rd5, %r2;", "mad.wide.s32 %rd5, %r2, 4, %rd1;",
        "cvt.s64.s32 %rd7, %r2; shl.b64 %rd5, %rd7, 2;", "mov.b64 %rd5, {%r2, %r3};",
        "cvt.u64.u32 %rd7, %r2; or.b64 %rd8, %rd7, 12; and.b64 %rd5, %rd8, -4294967296;",
    )
)  # fmt: skip


def _module(forms: Sequence[str]) -> str:
    """Return a kernel that stores %r4 and %r5 behind each form, a row of threads a form."""
    stored = "".join(
        f"mov.u32 %r5, 0;\n{form}\n"
        f"st.global.v2.u32 [%rd24+{8 * _THREADS * number}], {{%r4, %r5}};\n"
        for number, form in enumerate(forms)
    )
    return (
        f"{HEADER}.visible .entry k(.param .u64 a, .param .u64 b)\n{{\n"
        ".reg .b32 %r<64>; .reg .b16 %h<8>; .reg .b64 %rd<32>; .reg .pred %p<8>;\n"
        "ld.param.u64 %rd20, [a]; ld.param.u64 %rd21, [b]; mov.u32 %r1, %tid.x;\n"
        "mul.wide.u32 %rd22, %r1, 8; add.s64 %rd23, %rd20, %rd22; add.s64 %rd24, %rd21, %rd22;\n"
        "ld.global.v2.u32 {%r2, %r3}, [%rd23]; cvt.u16.u32 %h1, %r2;\n"
        f"setp.lt.u32 %p1, %r2, %r3; mov.u64 %rd1, 0;\n{stored}ret;\n}}\n"
    )


def _symbolic(text: str, pairs: list[tuple[int, int]]) -> list[list[tuple[int, int] | None]]:
    """Return (%r4, %r5) at each store as the transfer functions have them, at each pair."""
    program = build(parse(text), "k")
    atoms = Atoms()
    one = Number(1)
    law = LaunchLaw(
        module=text, kernel="k", grid=(one,) * 3, block=(Number(_THREADS), one, one),
        shared_bytes=Number(0), words={}, regions=(), parameter_bytes=(8, 8),
    )  # fmt: skip
    axes = Axes(atoms, Domain(axes={}), Scope(multiples={}, bounds={}))
    thread = Thread(program=program, atoms=atoms, axes=axes, law=law)
    first, second = (atoms.symbol(name, 0, (1 << 32) - 1) for name in ("first", "second"))
    state = State({"%r2": of(first), "%r3": of(second)})
    numbers = Numbers(atoms, Solver(), quiet=True)
    stored: list[list[tuple[int, int] | None]] = []
    for instruction in program.body:
        if instruction.base == "st":
            stored.append(_at(state, first, second, pairs))
        if instruction.base in ("ld", "st", "ret") or not instruction.operands:
            continue
        step = Step(thread, numbers, state, (), instruction, program.registers)
        transfer = transfer_of(instruction)
        value = transfer(step) if transfer is not None else None
        target = getattr(instruction.operands[0], "name", "")
        if value is None:
            state.registers.pop(target, None)
        else:
            state.registers[target] = value
    return stored


def _at(
    state: State, first: Atom, second: Atom, pairs: list[tuple[int, int]]
) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for a, b in pairs:
        values = {first: a, second: b}
        results = []
        for name in ("%r4", "%r5"):
            held = state.registers.get(name)
            if not isinstance(held, Poly):
                break
            for atom in held.atoms:  # what is said of an atom is so
                number = atom_value(atom, values, {})
                assert atom.low is None or atom.low <= number, (atom, number)
                assert atom.high is None or number <= atom.high, (atom, number)
                assert all(holds(fact, values, {}) for fact in atom.facts), (atom, a, b)
            results.append(value_of(held, values, {}) & 0xFFFFFFFF)
        found.append((results[0], results[1]) if len(results) == 2 else None)
    return found


@pytest.mark.parametrize(
    "forms", [FORMS[:18], FORMS[18:], COMPARISONS, WIDE], ids=["sums", "bits", "compared", "wide"]
)
def test_symbols_become_what_the_machine_computes(forms: tuple[str, ...]) -> None:
    draw = random.Random(len(forms))
    pairs = [
        (
            draw.choice(_VALUES) if draw.random() < 0.5 else draw.getrandbits(32),
            draw.choice(_VALUES) if draw.random() < 0.5 else draw.getrandbits(32),
        )
        for _ in range(_THREADS)
    ]
    text = _module(forms)
    given = buffer_of(np.array(pairs, np.uint32), "given")
    out = buffer_of(np.zeros((len(forms), _THREADS, 2), np.uint32), "out")
    report = execute(text, given, out, block=_THREADS)
    assert not report.wrong
    computed = out.data.view(np.uint32).reshape(len(forms), _THREADS, 2)
    for form, row, symbolic in zip(forms, computed, _symbolic(text, pairs), strict=True):
        for pair, one, other in zip(pairs, symbolic, row, strict=True):
            assert one == (int(other[0]), int(other[1])), f"{form} of {pair}"

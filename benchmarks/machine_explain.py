"""Where a GPU and the PTX machine disagree on a random program: what did ptxas make of it?

    python benchmarks/machine_explain.py DIR --seeds 3 153 369 [--careful]

DIR holds the dumps of benchmarks/machine_dump.py. For every seed the program is changed, one
instruction after another, into what ptxas is known to assemble instead of it, until the machine
gives what the GPU gave, in every word. What was needed goes to tests/data/assembled.json;
`machine_fidelity.py compare` repeats it. A program that no such change explains is printed.

The random programs lie in `packages/ptxsan/tests`, which belongs on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ptxsan.errors import MachineError
from ptxsan_fuzz.execute import run_text
from ptxsan_fuzz.inputs import words
from ptxsan_fuzz.programs import (
    EXACT_WORDS,
    HEADER,
    INPUT_WORDS,
    OUTPUT_WORDS,
    THREADS,
    generate,
)

PTXSAN = Path(__file__).resolve().parents[1] / "packages" / "ptxsan"
ASSEMBLED = PTXSAN / "tests" / "data" / "assembled.json"
Edit = tuple[int, str, list[str]]  # line, what ptxas did, what stands for the line instead
_LINE = re.compile(r"(@!?%\w+ )?([\w.:]+) (.*);$")
_SIGNS = {
    "f64": ("b64", 1 << 63, "%d"), "f32": ("b32", 1 << 31, "%r"), "f16": ("b16", 1 << 15, "%h"),
    "bf16": ("b16", 1 << 15, "%h"), "f16x2": ("b32", 0x80008000, "%r"),
    "bf16x2": ("b32", 0x80008000, "%r"),
}  # fmt: skip

TESTP = "the guard of testp is dropped"
PAYLOAD = "open in PTX: whose payload a NaN of two NaN operands has"
SIGN = "open in PTX: the sign of neg and abs of a NaN"
SAME = "min or max of x and x is x, also of a NaN"
COUNT = "the count of a 64-bit shift, in a register that a float instruction wrote, is converted"
BYTE = "a byte stored from a register that a float instruction wrote is converted by value"
REPEAT = "repeats of r = hi(x * y) + r are dropped"
ALIAS = "p = q and q is taken for q after q is overwritten"
WIDE = "the negation of a 16-bit integer is compared in 32 bits: -(-32768) is 32768"
MASK = "the mask that set.u32 makes is compared as a float by its value"
FITS = "saturation of what was an f16 is dropped, also of an infinity"
CLEAR = "abs of packed halves whose upper sign bit is known to be clear is a move"


def edits(lines: list[str]) -> Iterator[Edit]:
    """Yield every change that ptxas might have made, line by line."""
    for index, line in enumerate(lines):
        match = _LINE.match(line)
        if match is None:
            continue
        guard, opcode, rest = match[1] or "", match[2], match[3]
        operands = [one.strip() for one in rest.split(",")]
        yield from ((index, *one) for one in _of_line(guard, opcode, operands))
        if opcode == "neg.s16":
            yield from _wide(lines, index, operands[0])
        if opcode == "and.pred" and operands[1] == operands[2]:
            yield from _aliases(lines, index, operands[0], operands[1])
        if opcode.startswith("mad.hi") and operands[0] == operands[3]:
            yield from _repeats(lines, index)


def _of_line(guard: str, opcode: str, operands: list[str]) -> Iterator[tuple[str, list[str]]]:
    base, type_ = opcode.partition(".")[0], opcode.rpartition(".")[2]
    to, *sources = operands
    if base == "testp" and guard:
        yield TESTP, [f"{opcode} {', '.join(operands)};"]
    if (
        type_ == "f64"
        and len(sources) > 1
        and base in ("add", "sub", "mul", "div", "fma", "min", "max")
    ):
        yield from ((PAYLOAD, one) for one in _payloads(guard, opcode, operands))
    if base in ("neg", "abs") and type_ in _SIGNS:
        kind, bits, _ = _SIGNS[type_]
        operation, mask = (
            ("xor", bits) if base == "neg" else ("and", bits ^ (1 << int(kind[1:])) - 1)
        )
        yield SIGN, [f"{guard}{operation}.{kind} {to}, {sources[0]}, {mask};"]
    if base == "setp" and type_ == "f32":
        for place, source in enumerate(sources):
            if source.startswith("%r"):
                kept = [*sources[:place], "%tmp7", *sources[place + 1 :]]
                first = f"cvt.rn.f32.s32 %tmp7, {source};"
                yield MASK, [first, f"{guard}{opcode} {', '.join([to, *kept])};"]
    if opcode.startswith("cvt.sat.") and opcode.endswith(("32.s64", "32.u64")):
        yield FITS, [f"{guard}cvt.u32.u64 {to}, {sources[0]};"]
    if opcode in ("abs.f16x2", "abs.bf16x2"):
        yield CLEAR, [f"{guard}mov.b32 {to}, {sources[0]};"]
    if base in ("min", "max") and type_ in _SIGNS and sources[0] == sources[1]:
        yield SAME, [f"{guard}mov.{_SIGNS[type_][0]} {to}, {sources[0]};"]
    if opcode in ("shl.b64", "shr.u64", "shr.s64"):
        wide = "s64" if opcode == "shr.s64" else "u64"
        count = [f"cvt.rzi.{wide}.f32 %at2, {sources[1]};", "cvt.u32.u64 %tmp7, %at2;"]
        yield COUNT, [*count, f"{guard}{opcode} {to}, {sources[0]}, %tmp7;"]
    if opcode == "st.local.u8":
        yield from ((BYTE, one) for one in _bytes(to, sources[0]))


def _payloads(guard: str, opcode: str, operands: list[str]) -> Iterator[list[str]]:
    """Yield the instruction with the NaN of each operand in turn as the winner."""
    to, *sources = operands
    if opcode.partition(".")[0] in ("add", "mul", "fma", "min", "max"):
        yield [f"{guard}{opcode} {', '.join([to, sources[1], sources[0], *sources[2:]])};"]
    orders = [(source,) for source in sources]
    orders += list(itertools.permutations(sources, 2)) if len(sources) > 2 else []
    for order in orders:
        lines = [f"{opcode} %at2, {', '.join(sources)};"]
        for source in order:  # the last one wins
            lines += [
                f"setp.nan.f64 %q1, {source}, {source};",
                f"or.b64 %at3, {source}, {1 << 51};",
                "selp.b64 %at2, %at3, %at2, %q1;",
            ]
        yield [*lines, f"{guard}mov.b64 {to}, %at2;"]


def _bytes(place: str, source: str) -> Iterator[list[str]]:
    if source.startswith("%r"):
        first = f"cvt.rzi.u32.f32 %tmp7, {source};"
        yield [first, "min.u32 %tmp7, %tmp7, 255;", f"st.local.u8 {place}, %tmp7;"]
        return
    for kind in ("f16", "bf16"):
        first = f"cvt.rzi.u16.{kind} %half3, {source};"
        yield [first, "min.u16 %half3, %half3, 255;", f"st.local.u8 {place}, %half3;"]


def _wide(lines: list[str], index: int, to: str) -> Iterator[Edit]:
    """Yield each later comparison with a negated 16-bit integer, made in 32 bits."""
    for later in range(index + 1, len(lines)):
        match = _LINE.match(lines[later])
        if match is None or not match[2].startswith("setp.") or not match[2].endswith(".s16"):
            continue
        result, *compared = [one.strip() for one in match[3].split(",")]
        if to not in compared:
            continue
        new = []
        for scratch, one in zip(("%tmp6", "%tmp7"), compared, strict=True):
            new.append(f"cvt.s32.s16 {scratch}, {one};")
            if one == to:
                new.append(f"setp.eq.s32 %q1, {scratch}, -32768;")
                new.append(f"selp.b32 {scratch}, 32768, {scratch}, %q1;")
        wide = match[2].replace(".s16", ".s32")
        yield later, WIDE, [*new, f"{match[1] or ''}{wide} {result}, %tmp6, %tmp7;"]


def _aliases(lines: list[str], index: int, to: str, source: str) -> Iterator[Edit]:
    """Yield the copy made again after each later line that writes its source."""
    for later in range(index + 1, len(lines)):
        match = _LINE.match(lines[later])
        if match is not None and match[3].startswith(f"{source},"):
            yield later, ALIAS, [lines[later], f"and.pred {to}, {source}, {source};"]


def _repeats(lines: list[str], index: int) -> Iterator[Edit]:
    """Yield a loop around one `mad.hi` with every number of executions that may be left."""
    before, after = lines[index - 1], lines[index + 1 : index + 4]
    if not before.endswith(":") or not after[-1].startswith("@%q0 bra"):
        return
    counter = after[0].split()[1].rstrip(",")
    for kept in itertools.product((1, 2), (1, 2, 3), (1, 2, 3, 4)):
        new = [lines[index]]
        for turns in range(1, 4):  # the further executions of a loop of 2 to 4 turns
            end = f"{before[:-1]}_{turns}"
            new += [f"setp.ne.u32 %q0, {counter}, {turns};", f"@%q0 bra {end};"]
            new += [lines[index]] * (kept[turns - 1] - 1)
            new += [f"{end}:"]
        yield index, REPEAT, [*new, f"mov.u32 {counter}, 0;"]


def applied(lines: list[str], chosen: dict[int, Edit]) -> str:
    """Return the text of a program with its lines replaced."""
    kept = [chosen[i][2] if i in chosen else [line] for i, line in enumerate(lines)]
    return HEADER + "\n".join(line for some in kept for line in some)


def exact_words(seed: int, text: str) -> Any:
    """Return what the program of a seed, whose text is `text`, stores in the machine."""
    given = words(seed, THREADS * INPUT_WORDS)
    found = run_text(text, f"fuzz{seed}", given, OUTPUT_WORDS, (1, THREADS))
    return found[:, :EXACT_WORDS]


def explain(seed: int, dumped: Any, *, careful: bool) -> tuple[int, dict[int, Edit]]:
    """Return the words that still differ and the edits that bring the fewest, one at a time."""
    lines = generate(seed, careful=careful).text.split("\n")
    chosen: dict[int, Edit] = {}
    left = int((exact_words(seed, applied(lines, chosen)) != dumped).sum())
    while left:
        best: tuple[int, Edit] | None = None
        for edit in edits(lines):
            if edit[0] in chosen:
                continue
            try:
                found = exact_words(seed, applied(lines, {**chosen, edit[0]: edit}))
            except MachineError:
                continue
            differing = int((found != dumped).sum())
            if differing < (best[0] if best else left):
                best = differing, edit
        if best is None:
            break
        left, chosen[best[1][0]] = best[0], best[1]
    return left, chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--careful", action="store_true", help="programs of the present kind")
    parser.add_argument("--out", type=Path, default=ASSEMBLED)
    arguments = parser.parse_args()
    files = sorted(arguments.folder.glob("fuzz-*.npy"))
    dumps = [np.load(file, mmap_mode="r") for file in files]
    kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for seed in arguments.seeds:
        dumped = np.array(dumps[seed // len(dumps[0])][seed % len(dumps[0]), :, :EXACT_WORDS])
        left, chosen = explain(seed, dumped, careful=arguments.careful)
        print(seed, "differs" if left else "explained", left, [one[1] for one in chosen.values()])
        if left == 0:
            kept[str(seed)] = sorted(chosen.values())
    arguments.out.write_text(
        "{\n"
        + ",\n".join(
            f'"{k}": {json.dumps(v)}' for k, v in sorted(kept.items(), key=lambda one: int(one[0]))
        )
        + "\n}\n"
    )


if __name__ == "__main__":
    main()

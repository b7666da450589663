"""Where the instructions of a PTX module stand, and which of them touch shared state.

No parser: text is split into instructions just far enough to put others between them. Vector
operands and initialisers are told from blocks, comments, strings and `.loc` lines passed over.
Reference: PTX ISA, section 4 (syntax) and section 9.7 (instruction set).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"|^[ \t]*\.(?:loc|file)\b[^\n]*", re.DOTALL | re.MULTILINE
)
_MARKS = re.compile(r"[{};:]")
_BODY = re.compile(r"\.(?:entry|func)\b[^=]*$")
_NAME = re.compile(r"\.entry\s+([\w$%]+)")
_LABEL = re.compile(r"\s*[\w$%]+\s*$")
_OPCODE = re.compile(r"\s*(?:@!?%?[\w$]+\s+)?([a-z][\w.:]*)")
# Memory and barriers of more than one thread. Parameters, constants and locals are private.
_SHARED_STATE = re.compile(
    r"(?:ld|st)(?!matrix)(?!.*\.(?:param|const|local)\b)|ldmatrix|stmatrix|atom|red(?!ux)|"
    r"cp\.async|cp\.reduce|bar(?:rier)?\.|mbarrier\.|fence|membar|griddepcontrol|ldu|multimem"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction: where it begins in the module's text, its opcode, its whole text."""

    start: int
    opcode: str
    text: str
    kernel: str

    @property
    def touches_shared_state(self) -> bool:
        """Whether other threads may see it: memory that they share, a barrier, a fence."""
        return _SHARED_STATE.match(self.opcode) is not None


def instructions(ptx: str) -> Iterator[Instruction]:
    """Yield the instructions of every function body of a PTX module in order."""
    blank = _SKIPPED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), ptx)
    nested: list[str] = []  # of what we are inside of: body, block, operand, data
    boundary, kernel = 0, ""
    for mark in _MARKS.finditer(blank):
        sign, place = mark[0], mark.start()
        pending = blank[boundary:place]
        inside = nested[-1] if nested else ""
        if sign == "{":
            # What a brace opens, given the text since the last instruction.
            if not inside:
                kind = "body" if _BODY.search(pending) else "data"
            elif inside in ("operand", "data"):
                kind = inside
            else:
                kind = "operand" if pending.strip() else "block"
            nested.append(kind)
            if kind == "body":
                named = _NAME.search(pending)
                kernel = named[1] if named else ""
            if kind in ("body", "block"):
                boundary = place + 1
        elif sign == "}":
            if nested and nested.pop() in ("body", "block", "data"):
                boundary = place + 1
        elif inside in ("operand", "data"):
            continue
        elif sign == ";":
            boundary = place + 1
            if inside:
                yield from _one(pending, place - len(pending), kernel)
        elif inside and _LABEL.match(pending):
            boundary = place + 1


def _one(pending: str, place: int, kernel: str) -> Iterator[Instruction]:
    found = _OPCODE.match(pending)
    if found:
        start = place + len(pending) - len(pending.lstrip())
        yield Instruction(start=start, opcode=found[1], text=pending.strip(), kernel=kernel)

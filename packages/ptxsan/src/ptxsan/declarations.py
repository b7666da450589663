"""Variables of a PTX module: `.visible .global .align 4 .b8 table[16] = {1, 2, ...};`."""

from __future__ import annotations

import re
import struct

from ptxsan.errors import MachineError
from ptxsan.isa import DECLARED_SPACES
from ptxsan.operands import integer
from ptxsan.syntax import Declaration, Symbol

_NAME = re.compile(r"([$%\w]+)\s*((?:\[[^\]]*\]\s*)*)")
_LENGTH = re.compile(r"\[\s*(\w*)\s*\]")
_SIZES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16, "pred": 1,
}  # fmt: skip


def size_of(type_: str) -> int:
    """Return the bytes of a PTX type (`f32`: 4); raises KeyError for a name that is none."""
    return _SIZES[type_]


def parse_variable(text: str, line: int) -> Declaration:
    """Return the declaration in one statement; raises MachineError where it cannot be read."""
    head, _, initial = text.partition("=")
    align = re.search(r"\.align\s+(\d+)", head)
    head = re.sub(r"\.align\s+\d+|\.attribute\s*\([^)]*\)", " ", head)
    words = re.findall(r"\.([\w:]+)", head)
    match = _NAME.fullmatch(re.sub(r"\.[\w:]+", " ", head).strip())
    space = next((_space(word) for word in words if _space(word)), "")
    types = [word for word in words if word in _SIZES]
    if match is None or not space or not types:
        raise MachineError(f"cannot read declaration '{text[:80]}'", line=line)
    vector = next((int(word[1:]) for word in words if re.fullmatch(r"v[248]", word)), 1)
    lengths = _LENGTH.findall(match.group(2))
    size = size_of(types[0])
    data, addresses = _initialiser(initial, types[0], line) if initial else (None, ())
    count = vector
    for length in lengths:
        count *= integer(length) if length else (len(data) // size if data else 0)
    return Declaration(
        name=match.group(1),
        space=space,
        type=types[0],
        count=count,
        align=int(align.group(1)) if align else size * vector,
        initial=data,
        addresses=addresses,
        extern="extern" in words,
        pointer="ptr" in words,
        line=line,
    )


def _space(word: str) -> str:
    base = word.partition("::")[0]
    return base if base in DECLARED_SPACES else ""


def _initialiser(text: str, type_: str, line: int) -> tuple[bytes, tuple[tuple[int, Symbol], ...]]:
    data, addresses = bytearray(), []
    size = size_of(type_)
    for item in re.findall(r"[^{},\s][^{},]*", text):
        token = item.strip()
        try:
            if token[:2] in ("0f", "0F") and len(token) == 10:
                constant = int(token[2:], 16).to_bytes(4, "little")
            elif token[:2] in ("0d", "0D") and len(token) == 18:
                constant = int(token[2:], 16).to_bytes(8, "little")
            elif "." in token and size in (4, 8):
                constant = struct.pack("<f" if size == 4 else "<d", float(token))
            else:
                value = -integer(token[1:]) if token.startswith("-") else integer(token)
                constant = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
            data += constant
        except ValueError:
            match = re.match(r"(?:generic\()?([$%\w]+)\)?\s*(?:\+\s*(\d+))?$", token)
            if match is None:
                raise MachineError(f"cannot read constant '{token[:40]}'", line=line) from None
            addresses.append((len(data), Symbol(match.group(1), int(match.group(2) or 0))))
            data += bytes(size)
    return bytes(data), tuple(addresses)

"""The operands of an instruction: registers, constants, addresses, vectors, pairs, groups."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from ptxsan.errors import MachineError
from ptxsan.syntax import Address, Group, Immediate, Operand, Pair, Register, Symbol, Vector

_TOKEN = re.compile(
    r"\s*(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?"
    r"|\d+\.\d+|\d+U?|[%$A-Za-z_][\w$@.]*|[\[\]{}(),|+\-!~])"
)
Resolve = Callable[[str], str]


def parse_operands(text: str, resolve: Resolve, line: int) -> tuple[Operand, ...]:
    """Return the operands of an instruction's text; `resolve` renames names of inner scopes."""
    tokens = _tokens(text, line)
    return _Reader(tokens, resolve, line).operands() if tokens else ()


def integer(token: str) -> int:
    """Return the value of a PTX integer constant (decimal, hexadecimal, binary or octal)."""
    token = token.rstrip("U")
    if len(token) > 1 and token[0] == "0" and token[1].isdigit():
        return int(token, 8)
    return int(token, 0)


def _tokens(text: str, line: int) -> list[str]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise MachineError(f"cannot read operands '{text.strip()[:60]}'", line=line)
        tokens.append(match.group(1))
        position = match.end()
    return tokens


class _Reader:
    def __init__(self, tokens: list[str], resolve: Resolve, line: int) -> None:
        self._tokens, self._resolve, self._line = tokens, resolve, line
        self._at = 0

    def operands(self) -> tuple[Operand, ...]:
        found = self._list("")
        if self._at != len(self._tokens):
            self._fail()
        return found

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _fail(self) -> None:
        raise MachineError(f"cannot read operands '{' '.join(self._tokens)[:60]}'", line=self._line)

    def _list(self, closing: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while self._peek() != closing:
            items.append(self._operand())
            if self._peek() != ",":
                break
            self._next()
        return tuple(items)

    def _operand(self) -> Operand:
        token = self._peek()
        if token == "[":
            self._next()
            base = self._operand()
            coordinates: tuple[Operand, ...] = ()
            offset = self._offset()
            if self._peek() == ",":
                self._next()
                coordinates = self._list("]")
            if self._next() != "]":
                self._fail()
            if isinstance(base, Symbol):
                return Address(Symbol(base.name), base.offset + offset, coordinates)
            if not isinstance(base, Register | Immediate):
                self._fail()
                raise AssertionError
            return Address(base, offset, coordinates)
        if token == "{":
            return Vector(self._closed("}"))
        if token == "(":
            return Group(self._closed(")"))
        if token == "!":
            self._next()
            return Register(self._resolve(self._next()), negated=True)
        if token == "-" or token[:1].isdigit() or token == "~":
            return self._number()
        name = self._resolve(self._next())
        if not name or not (name[0] in "%$_" or name[0].isalpha()):
            self._fail()
        if self._peek() == "|":
            self._next()
            return Pair(Register(name), Register(self._resolve(self._next())))
        if name.startswith("%") or name == "_":
            return Register(name)
        return Symbol(name, self._offset())

    def _closed(self, closing: str) -> tuple[Operand, ...]:
        self._next()
        items = self._list(closing)
        if self._next() != closing:
            self._fail()
        return items

    def _number(self) -> Immediate:
        sign = 1
        if self._peek() == "-":
            self._next()
            sign = -1
        invert = self._peek() == "~"
        if invert:
            self._next()
        token = self._next()
        if token[:2] in ("0f", "0F") and len(token) == 10:
            return Immediate(int(token[2:], 16) ^ ((sign < 0) << 31), "f32")
        if token[:2] in ("0d", "0D") and len(token) == 18:
            return Immediate(int(token[2:], 16) ^ ((sign < 0) << 63), "f64")
        if not token[:1].isdigit():
            self._fail()
        if "." in token:  # as createpolicy spells its fraction; the manual has them as f64
            return Immediate(
                int.from_bytes(struct.pack("<d", sign * float(token)), "little"), "f64"
            )
        value = sign * integer(token)
        return Immediate((~value if invert else value) & 0xFFFFFFFFFFFFFFFF, "int")

    def _offset(self) -> int:
        offset = 0
        while self._peek() in ("+", "-"):
            sign = 1 if self._next() == "+" else -1
            if self._peek() == "-":
                self._next()
                sign = -sign
            value = integer(self._next())
            offset += sign * (value - (1 << 64) if value >= 1 << 63 else value)
        return offset

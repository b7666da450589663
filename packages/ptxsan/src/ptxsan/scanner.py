"""PTX text to statements with their lines: comments removed, `;`, `{` and `}` found.

A brace opens a scope only at the start of a statement; inside one it is a vector operand or an
initialiser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.DOTALL)
_TOKEN = re.compile(r'"[^"\n]*"|[;{}\n]|[^;{}\n"]+')
_HEAD = re.compile(r"\.(entry|func)\b")  # a `{` behind it opens a function's body
_LINE_DIRECTIVE = re.compile(r"\s*\.(loc|version|target|address_size|file|pragma)\b")


@dataclass(frozen=True, slots=True)
class Statement:
    """`kind` is "text" (up to `;`), "open" (text before a scope's `{`) or "close"."""

    kind: str
    text: str
    line: int


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a PTX text in order; debug sections are left out."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if found.startswith('"') else "\n" * found.count("\n")

    scanner = _Scanner()
    for token in _TOKEN.findall(_COMMENT.sub(blank, text)):
        yield from scanner.feed(token)
    yield from scanner.end()


class _Scanner:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._line = self._start = 1
        self._depth = 0  # of braces inside a statement
        self._section = False

    def feed(self, token: str) -> Iterator[Statement]:
        if self._section and token not in ("\n", "}"):
            return
        if token == "\n":
            text = "".join(self._pieces)
            if _LINE_DIRECTIVE.match(text) or text.rstrip().endswith(":"):
                yield from self._flush("text")
            self._line += 1
            if self._pieces:
                self._pieces.append(" ")
        elif token == ";":
            yield from self._flush("text")
        elif token == "{":
            yield from self._open()
        elif token == "}":
            if self._section:
                self._section = False
            elif self._depth:
                self._depth -= 1
                self._pieces.append("}")
            else:
                yield from self._flush("text")
                yield Statement("close", "", self._line)
        else:
            if not self._pieces:
                if not token.strip():
                    return
                self._start = self._line
            self._pieces.append(token)

    def end(self) -> Iterator[Statement]:
        yield from self._flush("text")

    def _open(self) -> Iterator[Statement]:
        text = "".join(self._pieces).strip()
        if text.startswith(".section"):
            self._section = True
            self._pieces.clear()
        elif (not text or _HEAD.search(text)) and self._depth == 0:
            if not text:
                self._start = self._line
            yield self._take("open", text)
        else:
            self._depth += 1
            self._pieces.append("{")

    def _flush(self, kind: str) -> Iterator[Statement]:
        text = "".join(self._pieces).strip()
        if text:
            yield self._take(kind, text)
        self._pieces.clear()

    def _take(self, kind: str, text: str) -> Statement:
        self._pieces.clear()
        return Statement(kind, text, self._start)

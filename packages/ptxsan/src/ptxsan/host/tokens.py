"""Tokens of C++ and CUDA C++ text, with their places in it.

Lexical rules: ISO C++20, clause 5 (translation phases 2 and 3 as far as places allow: a line that
ends in a backslash goes on in the next one). Comments and white space separate tokens and are not
returned; a preprocessing directive is one token up to the end of its logical line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What a token is."""

    NAME = auto()
    NUMBER = auto()
    STRING = auto()
    CHARACTER = auto()
    PUNCTUATION = auto()  # one character, but for `::` and `->`
    DIRECTIVE = auto()  # a preprocessing directive, from `#` to the end of its line


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `text[start:end]` of what was tokenized."""

    kind: Kind
    text: str
    start: int
    end: int


_SPACE = re.compile(r"(?:\s|\\\n|//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))+", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$\u0080-\U0010ffff][\w$]*")
_NUMBER = re.compile(r"\.?\d(?:[eEpP][+-]|'[\w]|[\w.])*")
_RAW = re.compile(r'(?:u8|[uUL])?R"([^()\\\s]{0,16})\(')
_STRING = re.compile(r'(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?', re.DOTALL)
_CHARACTER = re.compile(r"(?:u8|[uUL])?'(?:\\.|[^'\\\n])*'?", re.DOTALL)
_DIRECTIVE = re.compile(r"#(?:\\\n|/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|[^\n])*", re.DOTALL)
_PUNCTUATION = ("::", "->")


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text` in order. Unknown characters are punctuation of their own."""
    tokens: list[Token] = []
    place, line_start = 0, True
    while True:
        space = _SPACE.match(text, place)
        if space is not None:
            line_start = line_start or "\n" in re.sub(
                r"/\*.*?(?:\*/|\Z)|\\\n", " ", space[0], flags=re.DOTALL
            )
            place = space.end()
        if place >= len(text):
            return tokens
        kind, end = _token(text, place, line_start=line_start)
        tokens.append(Token(kind, text[place:end], place, end))
        place, line_start = end, kind is Kind.DIRECTIVE


def _token(text: str, place: int, *, line_start: bool) -> tuple[Kind, int]:
    if line_start and text[place] == "#":
        directive = _DIRECTIVE.match(text, place)
        assert directive is not None
        return Kind.DIRECTIVE, directive.end()
    if raw := _RAW.match(text, place):
        closing = text.find(f'){raw[1]}"', raw.end())
        return Kind.STRING, len(text) if closing < 0 else closing + len(raw[1]) + 2
    for kind, pattern in (
        (Kind.STRING, _STRING),
        (Kind.CHARACTER, _CHARACTER),
        (Kind.NAME, _NAME),
        (Kind.NUMBER, _NUMBER),
    ):
        if found := pattern.match(text, place):
            return kind, found.end()
    wide = text[place : place + 2] in _PUNCTUATION
    return Kind.PUNCTUATION, place + (2 if wide else 1)


_CLOSING = {"(": ")", "[": "]", "{": "}"}


def closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the bracket that closes the one at `opening` ( ( [ or { ).

    The last index where none does: the compiler will say so.
    """
    depth = 0
    for index in range(opening, len(tokens)):
        token = tokens[index]
        if token.kind is Kind.PUNCTUATION:
            depth += (token.text in _CLOSING) - (token.text in ")]}")
            if depth == 0:
                return index
    return len(tokens) - 1


def closing_angle(tokens: Sequence[Token], opening: int) -> int | None:
    """Return the index of the `>` that closes the `<` of a template list, None where none does.

    A `>` inside parentheses compares; `->` is one token.
    """
    index, depth = opening, 0
    while index < len(tokens):
        text = tokens[index].text
        if tokens[index].kind is Kind.PUNCTUATION:
            if text in _CLOSING:
                index = closing(tokens, index)
            elif text == "<":
                depth += 1
            elif text == ">":
                depth -= 1
                if depth == 0:
                    return index
            elif text in (";", ")", "]", "}"):
                return None
        index += 1
    return None


def split_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the parts of a parameter list between commas outside of brackets and template lists.

    A `<` behind a name opens a template list where one closes it.
    """
    parts: list[list[Token]] = [[]]
    index = 0
    while index < len(tokens):
        token = tokens[index]
        last = index
        if token.kind is Kind.PUNCTUATION and token.text in _CLOSING:
            last = closing(tokens, index)
        elif token.text == "<" and index and tokens[index - 1].kind is Kind.NAME:
            last = closing_angle(tokens, index) or index
        elif token.kind is Kind.PUNCTUATION and token.text == ",":
            parts.append([])
            index += 1
            continue
        parts[-1] += tokens[index : last + 1]
        index = last + 1
    return [part for part in parts if part]

"""Tokens of C++ and CUDA C++ text, with their places in it.

Lexical rules: ISO C++20, clause 5 (translation phases 2 and 3 as far as places allow: a line that
ends in a backslash goes on in the next one). Comments and white space separate tokens and are not
returned; a preprocessing directive is one token up to the end of its logical line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    """What a token is."""

    NAME = auto()
    NUMBER = auto()
    STRING = auto()
    CHARACTER = auto()
    PUNCTUATION = auto()  # one character, but for `::` and `->`
    DIRECTIVE = auto()  # a preprocessing directive, from `#` to the end of its line


class Token(NamedTuple):
    """A token: `text[start:end]` of what was tokenized. Texts have millions, so it is a tuple."""

    kind: Kind
    text: str
    start: int
    end: int


_DIRECTIVE = r"\#(?:\\\n|/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|[^\n])*"
_COMMENT = r"//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)"
_RAW = r'R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
_STRING, _CHARACTER = r'"(?:\\.|[^"\\\n])*"?', r"'(?:\\.|[^'\\\n])*'?"
_PREFIX = r"(?:u8|[uUL])?"
_TOKEN = re.compile(
    rf"(?:\s|\\\n|{_COMMENT})+|(?P<RAW>{_PREFIX}{_RAW})|(?P<STRING>{_PREFIX}{_STRING})"
    rf"|(?P<CHARACTER>{_PREFIX}{_CHARACTER})|(?P<NAME>[A-Za-z_$\u0080-\U0010ffff][\w$]*)"
    rf"|(?P<NUMBER>\.?\d(?:[eEpP][+-]|'[\w]|[\w.])*)|(?P<DIRECTIVE>{_DIRECTIVE})"
    r"|(?P<PUNCTUATION>::|->|.)",
    re.DOTALL,
)
_KINDS = {
    number: Kind.STRING if name == "RAW" else Kind[name]
    for name, number in _TOKEN.groupindex.items()
    if name != "mark"
}
_NO_LINE = re.compile(rf"{_COMMENT}|\\\n", re.DOTALL)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text` in order. Unknown characters are punctuation of their own."""
    tokens: list[Token] = []
    append, kinds, place = tokens.append, _KINDS, 0
    while place < len(text):
        for found in _TOKEN.finditer(text, place):
            kind = kinds.get(found.lastindex or 0)
            start, place = found.span()
            if kind is Kind.DIRECTIVE and not _begins_line(text, tokens, start):
                append(Token(Kind.PUNCTUATION, "#", start, start + 1))
                place = start + 1
                break
            if kind is not None:
                append(Token(kind, found[0], start, place))
    return tokens


def _begins_line(text: str, tokens: Sequence[Token], place: int) -> bool:
    """Whether nothing but space and comments is before a place in its line."""
    if not tokens or tokens[-1].kind is Kind.DIRECTIVE:
        return True
    return "\n" in _NO_LINE.sub(" ", text[tokens[-1].end : place])


_OUTSIDE_TOKENS = re.compile(
    rf"^(?<!\\\n)(?:[^\S\n]|\\\n|/\*.*?\*/)*+(?P<directive>{_DIRECTIVE})|{_COMMENT}|{_RAW}|{_STRING}"
    rf"|(?<![0-9A-Fa-f]){_CHARACTER}",
    re.DOTALL | re.MULTILINE,
)


def directives(text: str) -> list[Token]:
    """Return the directives among the tokens of `text`, which takes a tenth of all tokens' time."""
    return [
        Token(Kind.DIRECTIVE, found["directive"], *found.span("directive"))
        for found in _OUTSIDE_TOKENS.finditer(text)
        if found["directive"] is not None
    ]


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

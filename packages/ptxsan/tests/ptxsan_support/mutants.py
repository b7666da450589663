"""PTX with one guard, bound or stride changed: twins that may run out of their memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SWAPS = {
    "lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq",
}  # fmt: skip
_COMPARISON = re.compile(r"\bsetp\.(lt|le|gt|ge|eq|ne)\.([su](?:32|64))\b")
_CONSTANT = re.compile(r"\b(add\.[su](?:32|64)|setp\.\w+\.[su]32|shl\.b(?:32|64))(.*, )(-?\d+);")
_GUARD = re.compile(r"^(\s*)@(!?)(%p\d+) bra", re.MULTILINE)
_SHARED = re.compile(r"(\.shared .*\[)(\d+)(\];)")


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """Yield (what was changed, changed PTX), one change each."""
    for match in _COMPARISON.finditer(text):
        new = f"setp.{_SWAPS[match[1]]}.{match[2]}"
        yield f"{match[0]} -> {new}", _replaced(text, match, new)
        other = f"setp.{match[1]}.{'u' if match[2][0] == 's' else 's'}{match[2][1:]}"
        yield f"{match[0]} -> {other}", _replaced(text, match, other)
    for match in _CONSTANT.finditer(text):
        for change in (1, -1):
            number = int(match[3]) + change
            yield (
                f"{match[0]} with {number}",
                _replaced(text, match, f"{match[1]}{match[2]}{number};"),
            )
    for match in _GUARD.finditer(text):
        flipped = f"{match[1]}@{'' if match[2] else '!'}{match[3]} bra"
        yield f"{match[0].strip()} flipped", _replaced(text, match, flipped)
    for match in _SHARED.finditer(text):
        less = f"{match[1]}{int(match[2]) - 4}{match[3]}"
        yield f"{match[0].strip()} four bytes less", _replaced(text, match, less)


def _replaced(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]

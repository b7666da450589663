"""One kernel of a PTX text by itself: what a proof of it has to parse, with the lines in place."""

from __future__ import annotations

import re
from functools import lru_cache

_ENTRY = re.compile(r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.entry\s+([\w$]+)", re.MULTILINE)
_OPENED = re.compile(r"[{;]|//[^\n]*")
_BRACE = re.compile(r"[{}]|//[^\n]*|\"[^\"\n]*\"")


@lru_cache(maxsize=64)
def alone(module: str, kernel: str) -> str:
    """Return a module without the bodies of other kernels, which nothing in it calls.

    Each line that stays keeps its number.
    """
    parts, place = [], 0
    for entry in _ENTRY.finditer(module):
        if entry[1] == kernel or entry.start() < place:
            continue
        end = _end(module, entry.end())
        parts += [module[place : entry.start()], "\n" * module.count("\n", entry.start(), end)]
        place = end
    return "".join([*parts, module[place:]])


def _end(module: str, place: int) -> int:
    """Return where the kernel ends whose name ends at a place."""
    for found in _OPENED.finditer(module, place):
        if found[0] == ";":  # it is declared alone
            return found.end()
        if found[0] == "{":
            place = found.start()
            break
    depth = 0
    for found in _BRACE.finditer(module, place):
        depth += (found[0] == "{") - (found[0] == "}")
        if depth == 0 and found[0] == "}":
            return found.end()
    return len(module)

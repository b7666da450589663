"""Names as the source spells them: C++ names are demangled by the compiler's own library."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from functools import cache
from typing import Any

_MANGLED = re.compile(r"_Z\w+")
_LONGEST = 4096  # characters of a name that are demangled at all


@cache
def _library() -> Any:
    """Return the library that has `__cxa_demangle`; None where there is none."""
    name = ctypes.util.find_library("stdc++") or "libstdc++.so.6"
    try:
        library = ctypes.CDLL(name)
        function = library.__cxa_demangle
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return library


@cache
def _demangled(name: str) -> str:
    library = _library()
    if library is None or len(name) > _LONGEST:
        return ""
    status = ctypes.c_int()
    found = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not found:
        return ""
    text = ctypes.string_at(found).decode(errors="replace")
    library.free(ctypes.c_void_p(found))
    return text


def plain_name(mangled: str) -> str:
    """Return the name of a function without its scopes, template arguments and parameters."""
    name = source_name(mangled)
    if name == mangled:
        return name
    without = re.sub(r"<[^<>]*>", "", name)
    while without != name:
        name, without = without, re.sub(r"<[^<>]*>", "", without)
    return name.rpartition("::")[2]


def source_name(mangled: str) -> str:
    """Return a function's name with its template arguments: `rows<float, 4>`; others unchanged.

    A variable inside of a function is `tile of rows<float, 4>`.
    """
    if not mangled.startswith("_Z"):
        return mangled
    text = _demangled(mangled)
    if not text:  # its last name, without types (Itanium C++ ABI)
        rest, found = mangled.removeprefix("_Z").removeprefix("Z").removeprefix("N"), mangled
        while match := re.match(r"(\d+)", rest):
            start, size = match.end(), int(match[1])
            if len(rest) < start + size:
                return mangled
            found, rest = rest[start : start + size], rest[start + size :]
            if not mangled.startswith("_ZN"):
                break
        if mangled.startswith("_ZZ") and (local := re.search(r"E(\d+)(\w+)$", rest)):
            return f"{local[2][: int(local[1])]} of {found}"
        return found
    text = text.replace("(anonymous namespace)::", "")
    kept, depth, angles = [], 0, 0
    for index, letter in enumerate(text):
        if angles == 0 and letter == "(":
            depth += 1
        if depth == 0:
            angles += (letter == "<") - (letter == ">" and text[index - 1] != "-")
            kept.append(letter)
        if angles == 0 and letter == ")":
            depth -= 1
    found = re.sub(r"\[abi:\w+\]| const$", "", "".join(kept)).strip()
    # `void rows<float>`: a space outside of brackets ends the result type
    outside = re.sub(r"<.*>", lambda match: "x" * len(match[0]), found)
    function, _, variable = found[outside.rfind(" ") + 1 :].rpartition("::")
    if mangled.startswith("_ZZ") and function:
        return f"{variable} of {function}"
    return f"{function}::{variable}" if function else variable


def readable(text: str) -> str:
    """Return a text in which C++ names are spelt as the source does."""
    return _MANGLED.sub(lambda match: source_name(match[0]), text)

"""C++ integer expressions of host code as axis expressions, and the declarations that hold them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_SIZE = re.compile(r"\b(\w+)\s*\.\s*(size|sizes|numel|dim)\s*\(\s*(-?\d*)\s*\)(?:\s*\[(-?\d+)\])?")
_CAST = re.compile(
    r"static_cast\s*<[^<>]*>\s*|\(\s*(?:unsigned|int|long|int64_t|uint32_t|size_t)\s*\)"
)
_SIZEOF = {"float": 4, "double": 8, "__half": 2, "half": 2, "__nv_bfloat16": 2, "int": 4, "char": 1}
_DECLARATION = re.compile(
    r"(?:const\s+|constexpr\s+|static\s+)*"
    r"(?:auto|int|int64_t|int32_t|long|long\s+long|unsigned|unsigned\s+int|size_t|uint32_t|dim3|"
    r"(?:torch|at)\s*::\s*Tensor)\s*&?\s+(\w+\s*(?:=|\(|\{).*)$",
    re.DOTALL,
)


class Unreadable(Exception):
    """A piece of host code that is not read; the message says which, as part of a sentence."""


def split(text: str) -> list[str]:
    """Return the parts of a comma-separated list, brackets respected."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current] if current.strip() else parts


def declarations(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of the declarations and plain assignments in host code."""
    for statement in text.replace("{", " { ").split(";"):
        statement = statement.strip()
        declared = _DECLARATION.search(statement)
        if declared is None:
            assigned = re.match(r"^(\w+)\s*=\s*([^=].*)$", statement, re.DOTALL)
            if assigned:
                yield assigned[1], _flat(assigned[2])
            continue
        is_grid = "dim3" in statement[: declared.start(1)]
        for part in split(declared[1]):
            found = re.match(r"^\s*(\w+)\s*(=|\(|\{)(.*)$", part, re.DOTALL)
            if found is None:
                continue
            value = found[3] if found[2] == "=" else f"dim3{found[2]}{found[3]}"
            if found[2] == "=" or is_grid:
                yield found[1], _flat(value)


def _flat(text: str) -> str:
    return " ".join(text.replace(" { ", "{").split())


def translated(text: str, values: Mapping[str, str], shapes: Mapping[str, Sequence[str]]) -> str:
    """Return a C++ integer expression over known names as an axis expression.

    Raises Unreadable for a name or an operation that is not known.
    """
    plain = _SIZE.sub(lambda match: _size(match, shapes), text.strip())
    plain = re.sub(r"sizeof\s*\(\s*(\w+)\s*\)", lambda m: str(_SIZEOF.get(m[1], m[0])), plain)
    plain = _CAST.sub("", plain)
    plain = re.sub(r"\bstd\s*::\s*(min|max)\s*(?:<[^<>]*>)?\s*\(", r"\1(", plain)
    plain = re.sub(r"(?<=\d)[uUlL]+\b", "", plain)
    if re.search(r"[^\w\s()+\-*/%,]", plain):
        raise Unreadable(f"the expression '{_flat(text)}' is more than integer arithmetic")
    axes = {part for shape in shapes.values() for part in shape}
    out = []
    for token in re.findall(r"\w+|[^\w\s]", plain):
        if not re.match(r"[A-Za-z_]", token) or token in ("min", "max"):
            out.append("//" if token == "/" else token)
        elif token in values:
            out.append(f"({values[token]})")
        elif any(re.search(rf"\b{token}\b", axis) for axis in axes):
            out.append(token)
        else:
            raise Unreadable(f"'{token}' in '{_flat(text)}' is not known")
    return " ".join(out)


def _size(match: re.Match[str], shapes: Mapping[str, Sequence[str]]) -> str:
    name, what, argument, index = match.groups()
    if name not in shapes:
        raise Unreadable(f"the shape of '{name}' is not known")
    shape = shapes[name]
    if what == "dim":
        return str(len(shape))
    if what == "numel":
        return "(" + (" * ".join(f"({part})" for part in shape) or "1") + ")"
    place = int(argument or index or 0)
    if not -len(shape) <= place < len(shape):
        raise Unreadable(f"'{name}' has no dimension {place}")
    return f"({shape[place]})"

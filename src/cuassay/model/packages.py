"""Which packages for GPU kernels a Python source uses: by its imports, and what it names of them.

A word in a comment, a docstring or a message uses nothing. Texts that are no Python, and texts
inside a source that are written to a file or executed, are read by their lines.
"""

from __future__ import annotations

import ast
import enum
import functools
import re
from collections.abc import Iterator

from cuassay.model.python_text import parse_python

_IMPORTS = frozenset({"import_module", "__import__", "importorskip"})
# A line that imports, in a text that does not parse.
_LINE = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\w+)|import[ \t]+([\w.]+))", re.M
)


class Package(enum.Enum):
    """What makes and launches kernels, with the names of modules that say so.

    A source may run a package's kernels without a word of it: through a library of such kernels.
    """

    TRITON = ("triton", "liger_kernel", "flag_gems", "unsloth", "gemlite", "helion", "fla", "conch",
              "cut_cross_entropy")  # fmt: skip
    CUTE = ("cutlass.cute", "quack")
    DRIVER = ("cuda.core", "cuda.bindings")
    NUMBA = ("numba.cuda", "numba_cuda")
    TILELANG = ("tilelang",)
    CUPY = ("cupy", "cupyx")


@functools.lru_cache(maxsize=512)
def packages_of(text: str) -> frozenset[Package]:
    """Return the packages that a source uses."""
    names = frozenset(_names(text))
    found = {one for one in Package if any(_is_of(name, one) for name in names)}
    # Packages keep Triton and its kernels under names like vllm.triton_utils.
    if any("triton" in name for name in names):
        found.add(Package.TRITON)
    return frozenset(found)


def _is_of(name: str, package: Package) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in package.value)


def _names(text: str) -> Iterator[str]:
    """Yield what a source imports, and names of what it imported, with their modules' names."""
    try:
        nodes = list(ast.walk(parse_python(text)))  # what is within a node comes behind it
    except SyntaxError:
        yield from _lines(text)
        return
    bound: dict[str, str] = {}  # names of this source, and what they stand for
    notes: set[int] = set()  # texts that are no values: docstrings
    for node in nodes:
        match node:
            case ast.Import() | ast.ImportFrom():
                for own, stands_for, whole in _bindings(node):
                    bound[own] = stands_for
                    yield whole
            case ast.Expr(value=ast.Constant() as note):
                notes.add(id(note))
            case ast.Call(func=function, args=[ast.Constant(value=str() as name), *_]):
                if _dotted(function).rpartition(".")[2] in _IMPORTS:
                    yield name
            case ast.Constant(value=str() as inner) if "\n" in inner and id(node) not in notes:
                yield from _lines(inner)
    for node in nodes:
        if isinstance(node, ast.Attribute):
            root, _, rest = _dotted(node).partition(".")
            if root in bound:
                yield f"{bound[root]}.{rest}"


def _lines(text: str) -> Iterator[str]:
    for module, name, whole in _LINE.findall(text):
        yield whole or f"{module}.{name}"


def _bindings(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Yield each name that an import makes, what it stands for, and what is imported."""
    for one in node.names:
        if isinstance(node, ast.Import):
            root = one.name.partition(".")[0]
            yield one.asname or root, one.name if one.asname else root, one.name
        else:
            whole = f"{node.module}.{one.name}" if node.module else one.name
            yield one.asname or one.name, whole, whole


def _dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a name or such a chain of names, or an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""

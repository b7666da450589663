"""The files of a package that one of its modules needs: what it imports, and what those import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from cuassay.model.python_text import parse_python

_BESIDE = (".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp")  # sources that Python code reads


def package_files(module: Path) -> dict[str, bytes]:
    """Return the needed files of the package of `module`, by path from the package's parent.

    Imports are followed where they stay inside the package, also those inside functions; the
    C++ and CUDA sources beside each module come along. Nothing is executed.
    """
    top = module.parent
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    root = top.parent
    wanted: dict[Path, None] = {}
    queue = [module, *_parents(module, root)]
    while queue:
        file = queue.pop()
        if file not in wanted:
            wanted[file] = None
            queue += _imports(file, root, top.name)
    for folder in {file.parent for file in wanted}:
        wanted |= dict.fromkeys(f for f in folder.iterdir() if f.suffix in _BESIDE and f.is_file())
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in sorted(wanted)}


def sibling_files(module: Path) -> dict[str, bytes]:
    """Return a file that is in no package, with the modules beside it that it imports.

    The file itself comes first; C++ and CUDA sources beside it come along. Nothing is executed.
    """
    root = module.parent
    wanted: dict[Path, None] = {}
    queue = [module]
    while queue:
        file = queue.pop()
        if file in wanted:
            continue
        wanted[file] = None
        try:
            tree = parse_python(file.read_bytes())
        except SyntaxError:
            continue  # the build reports it, as the candidate's fault
        for node in ast.walk(tree):
            for dotted in _named(node, file, root):
                queue += _files(dotted, root)
    wanted |= dict.fromkeys(f for f in root.iterdir() if f.suffix in _BESIDE and f.is_file())
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in wanted}


def _parents(file: Path, root: Path) -> Iterator[Path]:
    """Yield the __init__.py of every package that a file lies in."""
    folder = file.parent
    while folder != root:
        yield folder / "__init__.py"
        folder = folder.parent


def _imports(file: Path, root: Path, top: str) -> Iterator[Path]:
    try:
        tree = parse_python(file.read_bytes())
    except SyntaxError:
        return  # the build reports it, as the candidate's fault
    for node in ast.walk(tree):
        for dotted in _named(node, file, root):
            if dotted.partition(".")[0] == top:
                yield from _files(dotted, root)


def _named(node: ast.AST, file: Path, root: Path) -> Iterator[str]:
    """Yield the dotted names that an import could load: `from a import b` gives a and a.b."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            folder = file.parent
            for _ in range(node.level - 1):
                folder = folder.parent
            here = ".".join(folder.relative_to(root).parts)
            base = f"{here}.{base}" if base else here
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _files(dotted: str, root: Path) -> Iterator[Path]:
    place = root.joinpath(*dotted.split("."))
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            yield file
            yield from _parents(file, root)

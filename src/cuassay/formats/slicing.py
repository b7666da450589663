"""A function's source cut out of its module, with what it uses, as a module of its own.

A reference that stands in a test file is judged in another process. That process must not
import the test file: it imports the kernel on trial. So the function is taken with the
imports, constants, classes and functions of its module that it names, and nothing else.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError
from cuassay.formats.structure import library_import

_LIBRARY_FOLDERS = ("site-packages", "dist-packages")
# What the text around a function binds at its top level.
_TAKEN = frozenset({"run", "inspect", "_reference", "_made", "_taken", "_call"})
_TORCH = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft")


def standalone(function: Callable[..., object], inputs: Sequence[str]) -> str:
    """Return a module's text whose `run(*inputs)` computes what `function` computes.

    Raises ProblemError where the function cannot be cut out: a lambda, a closure, a method, or
    source that is not a file.
    """
    imported = _import_line(function)
    if imported:
        return f"{imported}\n\n\n{_wrapper(inputs)}"
    tree, name, file, package = _source_of(function, "reference")
    bindings = dict(_bindings(tree, where=file, package=package))
    entry = bindings.get(name)
    if not isinstance(entry, ast.FunctionDef):
        raise ProblemError(f"{file} has no top-level function '{name}'; expected the reference")
    texts = _texts(bindings, _used(entry, skip_signature=True), without=name)
    return "\n\n".join([*texts, _entry(entry, inputs)]) + "\n"


def aliased(function: Callable[..., object], alias: str, *, classes: Mapping[str, type]) -> str:
    """Return a module's text in which `alias` is `function`, and `classes` have these names.

    Classes of libraries are imported, others are cut out of their files. Raises as `standalone`.
    """
    imported = _import_line(function, alias)
    texts = [class_text(kind, name) for name, kind in classes.items()]
    if imported:
        return "\n\n\n".join([*texts, imported]) + "\n"
    tree, name, file, package = _source_of(function, "reference")
    cut = _needed(tree, [name], where=file, package=package)
    return "\n\n\n".join([*texts, cut, f"{alias} = {name}"]) + "\n"


def class_text(kind: type, alias: str) -> str:
    """Return the text that defines `alias` as a class: an import of a library's, else its source.

    Raises ProblemError where the source cannot be read.
    """
    imported = library_import(kind, alias)
    if imported:
        return imported
    tree, name, file, package = _source_of(kind, "class")
    return f"{_needed(tree, [name], where=file, package=package)}\n\n{alias} = {name}"


def _source_of(thing: Any, what: str) -> tuple[ast.Module, str, str, str]:
    """Return the tree, the name, the file and the package that define a function or class."""
    name = getattr(thing, "__qualname__", repr(thing))
    if name == "<lambda>" or "." in name or getattr(thing, "__closure__", None):
        raise ProblemError(
            f"the {what} '{name}' is a lambda, a method or a closure, expected a definition at "
            "the top level of a file: another process has to read it; write it there"
        )
    file = Path(inspect.getsourcefile(thing) or "<unknown>")
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as failure:
        raise ProblemError(
            f"the source of the {what} '{name}' cannot be read from {file}: {failure}; write "
            "it into a .py file"
        ) from None
    package = getattr(inspect.getmodule(thing), "__package__", "") or ""
    bound = {found for found, _ in _bindings(tree, where=str(file), package=package)}
    aside = {taken: f"_own_{taken}" for taken in bound & _TAKEN if taken != name}
    return _Aside(aside).visit(tree) if aside else tree, name, str(file), package


class _Aside(ast.NodeTransformer):
    """Renames what a module binds at its top level; what a function binds hides it there."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_alias(self, node: ast.alias) -> ast.alias:
        renamed = self._names.get(node.asname or node.name)
        node.asname = renamed or node.asname
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self._inside(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._inside(node)

    def _inside(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        hidden = {found.arg for found in ast.walk(node.args) if isinstance(found, ast.arg)}
        for found in ast.walk(node):
            if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store):
                hidden.add(found.id)
        kept = {name: new for name, new in self._names.items() if name not in hidden}
        return ast.NodeTransformer.generic_visit(_Aside(kept), node)


def parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a function's parameters; empty where it has no signature."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(parameter.name for parameter in found if parameter.kind in named)


def _import_line(function: Callable[..., object], alias: str = "_reference") -> str:
    """Return the import of a library's function, empty for one of the user's own files."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None)
    try:
        file = inspect.getsourcefile(function)
    except TypeError:
        file = None
    ours = file is not None and not any(part in _LIBRARY_FOLDERS for part in Path(file).parts)
    if ours or name == "<lambda>":
        return ""
    for place in (*_TORCH, *([module] if module else [])):
        if getattr(importlib.import_module(place), name, None) is function:
            return f"from {place} import {name} as {alias}"
    return ""


def _wrapper(inputs: Sequence[str]) -> str:
    named = ", ".join(inputs)
    return f"def run({named}):\n    return _reference({named})\n"


def _needed(tree: ast.Module, names: Sequence[str], *, where: str, package: str) -> str:
    """Return the statements that define some names, with what those need."""
    bindings = dict(_bindings(tree, where=where, package=package))
    missing = [name for name in names if name not in bindings]
    if missing:
        raise ProblemError(f"{where} has no top-level definition of '{missing[0]}'")
    return "\n\n".join(_texts(bindings, set(names)))


def _texts(bindings: Mapping[str, ast.stmt], names: set[str], *, without: str = "") -> list[str]:
    """Return the statements that bind some names and what these use, in the file's order."""
    wanted: dict[str, ast.stmt] = {}
    queue = list(names)
    while queue:
        used = queue.pop()
        if used in wanted or used not in bindings or used == without:
            continue
        wanted[used] = bindings[used]
        queue += _used(bindings[used])
    order = list(dict.fromkeys(map(id, bindings.values())))
    nodes = {id(node): node for node in wanted.values()}
    return [ast.unparse(nodes[key]) for key in order if key in nodes]


def _entry(node: ast.FunctionDef, inputs: Sequence[str]) -> str:
    """Return the function as `run`, or `run` calling it where it takes more than the inputs."""
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    node.decorator_list, node.returns = [], None
    taken = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    recursive = node.name in _used(node, skip_signature=True)
    plain = not (arguments.kwonlyargs or arguments.vararg or arguments.kwarg)
    if plain and taken == list(inputs) and not recursive:
        node.name = "run"
        arguments.defaults = []
        return ast.unparse(node)
    alias = f"_reference = {node.name}"
    return f"{ast.unparse(node)}\n\n{alias}\n\n{_wrapper(inputs)}"


def _used(node: ast.AST, *, skip_signature: bool = False) -> set[str]:
    """Return the names that a statement reads, builtins left out."""
    parts: list[ast.AST] = [node]
    if skip_signature and isinstance(node, ast.FunctionDef):
        parts = [*node.body, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    return {
        found.id
        for part in parts
        for found in ast.walk(part)
        if isinstance(found, ast.Name)
        and isinstance(found.ctx, ast.Load)
        and not hasattr(builtins, found.id)
    }


def _bindings(tree: ast.Module, *, where: str, package: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield every name that the module's top level binds, with the statement that does it."""
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    yield bound, ast.Import(names=[alias])
            case ast.ImportFrom(names=names):
                module = _absolute(node, where=where, package=package)
                for alias in names:
                    single = ast.ImportFrom(module=module, names=[alias], level=0)
                    yield alias.asname or alias.name, single
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node
            case ast.Assign(targets=targets):
                for target in targets:
                    for found in ast.walk(target):
                        if isinstance(found, ast.Name):
                            yield found.id, node
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                yield name, node


def _absolute(node: ast.ImportFrom, *, where: str, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".") if package else []
    kept = parts[: len(parts) - node.level + 1]
    if not kept:
        raise ProblemError(
            f"{where}: line {node.lineno}: a relative import outside a package; the reference "
            "needs it: import by an absolute name"
        )
    return ".".join([*kept, *([node.module] if node.module else [])])

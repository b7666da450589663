"""A package's definitions with all that they need, as text of their own.

A model's file imports its whole package, which takes longer than a trial. What a kernel is made of
is a class or two: `extract` takes them from the files as they are, with the functions, constants
and imports that they name, over modules of the package. Annotations go, and so do decorators that
the package itself defines (they register and document).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

Module: TypeAlias = tuple[str, ...]

_LOGGER = "import logging\nlogger = logging.getLogger(__name__)"
# What packages ask of their environment, answered as for a plain machine.
_NO = """
    is_torchdynamo_compiling is_deepspeed_initialized is_torch_npu_available is_torch_xpu_available
    is_torch_mps_available is_tracing _log_api_usage_once
"""
# Apex is not installed, and torch has a norm where timm would use its own.
_APEX = "fused_layer_norm_affine fused_rms_norm fused_rms_norm_affine fast_rms_norm"
_ANSWERS = {
    "logger": _LOGGER,
    "is_torch_available": "is_torch_available = lambda: True",
    "is_torch_greater_or_equal": "is_torch_greater_or_equal = lambda *given, **more: True",
    "has_apex": "has_apex = False",
    "has_apex_rmsnorm": "has_apex_rmsnorm = False",
    **{name: f"{name} = None" for name in _APEX.split()},
    **{name: f"{name} = lambda *given, **more: False" for name in _NO.split()},
}


def extract(packages: Path, wanted: Sequence[str]) -> str:
    """Return the text of `package.module:name` definitions and of what they need.

    Raises LookupError for a name that its module does not define, and for one that two define.
    """
    taken = _Taken(packages)
    for one in wanted:
        module, _, name = one.partition(":")
        taken.take(tuple(module.split(".")), name)
        while taken.later:
            taken.take(*taken.later.pop(0))
    return "\n\n".join([*taken.imports, *taken.parts]) + "\n"


class _Taken:
    def __init__(self, packages: Path) -> None:
        self._packages = packages
        self._known: set[tuple[Module, str]] = set()
        self._homes: dict[str, Module] = {}  # of definitions; () for what is imported from outside
        self.imports: dict[str, None] = {}
        self.parts: list[str] = []
        self.later: list[tuple[Module, str]] = []  # what functions name, for when they are called

    def take(self, module: Module, name: str, *, runs: bool = False) -> None:
        """Take a definition: after what it needs at once; note what its functions name.

        One that `runs` while the file is read, in a decorator, needs at once what its body names.
        """
        if (module, name) in self._known:
            return
        self._known.add((module, name))
        if name in _ANSWERS:
            self.parts.append(_ANSWERS[name])
            return
        found = _bindings(_file(self._packages, module)).get(name)
        if found is None:
            raise LookupError(f"{'.'.join(module)} does not define '{name}'")
        if isinstance(found, ast.Import | ast.ImportFrom):
            self._imported(module, found, name)
            return
        self._bind(name, module)
        node = _Plain(self._outside(module)).visit(copy.deepcopy(found))
        known = _bindings(_file(self._packages, module))
        runs = runs and isinstance(node, ast.FunctionDef)
        own = _own_names(node) if isinstance(node, ast.FunctionDef) else set()
        at_once = set(_names(node, inside=runs)) & known.keys() - {name} - (own if runs else set())
        for used in sorted(at_once):
            self.take(module, used, runs=True)
        self.parts.append(ast.unparse(ast.fix_missing_locations(node)))
        later = set(_names(node, inside=True)) & known.keys() - {name} - at_once - own
        self.later += [(module, used) for used in sorted(later)]

    def _bind(self, name: str, home: Module) -> None:
        """Note where a name comes from: in one file it can mean one thing alone."""
        first = self._homes.setdefault(name, home)
        if first != home:
            both = " and ".join(".".join(one) or "an import" for one in (first, home))
            raise LookupError(f"'{name}' is defined by {both}; say which in _ANSWERS")

    def _imported(self, module: Module, found: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = next(one for one in found.names if (one.asname or one.name.split(".")[0]) == name)
        source = self._inside(module, found) if isinstance(found, ast.ImportFrom) else None
        if source is None:
            one = type(found)(**{**vars(found), "names": [alias]})
            self._bind(name, ())
            self.imports[ast.unparse(one)] = None
            return
        self.take(source, alias.name)
        if alias.asname:
            self.parts.append(f"{alias.asname} = {alias.name}")

    def _inside(self, module: Module, found: ast.ImportFrom) -> Module | None:
        """Return the package's own module that is imported from, None for others."""
        named = tuple((found.module or "").split(".")) if found.module else ()
        if found.level:
            here = module if _is_package(self._packages, module) else module[:-1]
            return here[: len(here) - found.level + 1] + named
        return named if named[:1] == module[:1] else None

    def _outside(self, module: Module) -> set[str]:
        """Return names in a module that do not come from its own package."""
        found = _bindings(_file(self._packages, module))
        return {
            name
            for name, node in found.items()
            if isinstance(node, ast.Import)
            or (isinstance(node, ast.ImportFrom) and self._inside(module, node) is None)
        }


class _Plain(ast.NodeTransformer):
    """Drops annotations, docstrings, and decorators of the package."""

    def __init__(self, outside: set[str]) -> None:
        self._outside = outside | {"property", "staticmethod", "classmethod"}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Drop what a function is annotated and decorated with."""
        node.returns = None
        arguments = node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if getattr(one.annotation, "attr", "") != "constexpr":  # Triton's says what to compile
                one.annotation = None
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                rest.annotation = None
        return self._undecorated(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Drop what a class is decorated with."""
        return self._undecorated(node)

    def _undecorated(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        node.decorator_list = [one for one in node.decorator_list if self._keeps(one)]
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:] or [ast.Pass()]
        self.generic_visit(node)
        return node

    def _keeps(self, decorator: ast.expr) -> bool:
        root = decorator
        while not isinstance(root, ast.Name):
            inner = getattr(root, "func", None) or getattr(root, "value", None)
            if inner is None:
                return False
            root = inner
        return root.id in self._outside


def _names(node: ast.AST, *, inside: bool) -> Iterator[str]:
    """Yield names that a definition needs: those of bodies of functions, or those before them."""
    if isinstance(node, ast.Name):
        yield node.id
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(node, ast.FunctionDef | ast.Lambda) and not inside:
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST):
                yield from _names(one, inside=inside)


def _own_names(function: ast.FunctionDef) -> set[str]:
    """Return what a function binds itself: a script may have a name for something else."""
    found = {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
    names = (one for one in ast.walk(function) if isinstance(one, ast.Name))
    return found | {one.id for one in names if isinstance(one.ctx, ast.Store)}


@cache
def _bindings(file: Path) -> dict[str, ast.stmt]:
    """Return what each name of a file is bound by, at its top level, conditions included."""
    found: dict[str, ast.stmt] = {}

    def look(body: Sequence[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    for alias in names:
                        found[alias.asname or alias.name.split(".")[0]] = node
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found[name] = node
                case ast.Assign(targets=[ast.Name(id=name)]):
                    found[name] = node
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                    found[name] = node
                case ast.If() | ast.Try():
                    look(node.body)

    look(ast.parse(file.read_text(encoding="utf-8")).body)
    return found


def _is_package(packages: Path, module: Module) -> bool:
    return packages.joinpath(*module, "__init__.py").is_file()


def _file(packages: Path, module: Module) -> Path:
    place = packages.joinpath(*module)
    return place / "__init__.py" if _is_package(packages, module) else place.with_suffix(".py")

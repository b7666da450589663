"""Functions of a Python source, read from its syntax tree; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from cuassay.model.python_text import parse_python


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Parameters of one top-level function. `open_ended` has *args, `required` no default."""

    name: str
    line: int
    parameters: tuple[str, ...]
    required: int
    open_ended: bool = False
    keyword_required: tuple[str, ...] = ()
    is_async: bool = False

    def accepts(self, count: int) -> bool:
        """Whether a call with `count` positional arguments fits."""
        fits = self.required <= count and (self.open_ended or count <= len(self.parameters))
        return fits and not self.keyword_required

    def __str__(self) -> str:
        names = [*self.parameters, *(["*args"] if self.open_ended else [])]
        return f"{self.name}({', '.join(names)})"


def syntax_tree(source: str, path: str) -> ast.Module:
    """Return the tree of `source`; see `parse_python`. Raises SyntaxError."""
    return parse_python(source, path)


def functions(tree: ast.Module) -> dict[str, Signature]:
    """Return the top-level functions by name; a later definition replaces an earlier one."""
    found: dict[str, Signature] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
            keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            found[node.name] = Signature(
                name=node.name,
                line=node.lineno,
                parameters=tuple(positional),
                required=len(positional) - len(arguments.defaults),
                open_ended=arguments.vararg is not None,
                keyword_required=tuple(arg.arg for arg, default in keyword if default is None),
                is_async=isinstance(node, ast.AsyncFunctionDef),
            )
    return found


def bound_names(tree: ast.Module) -> frozenset[str]:
    """Return names that the module's top level may bind by other means than `def`.

    A star import may bind anything and is reported as `*`.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {(alias.asname or alias.name).split(".")[0] for alias in aliases}
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)  # inside an `if` or `try`
    return frozenset(names)


def decorators(tree: ast.Module) -> Mapping[str, tuple[str, ...]]:
    """Return the dotted decorator names (calls stripped) of each top-level function."""
    found: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            called = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
            found[node.name] = tuple(ast.unparse(expression) for expression in called)
    return found


def wraps_arguments(tree: ast.Module, name: str) -> bool:
    """Whether a decorator may have changed the parameters of function `name`.

    Decorators of torch and triton that keep a function's parameters do not count.
    """
    kept = (
        "no_grad", "inference_mode", "compile", "cache", "lru_cache", "jit", "autotune",
        "custom_op", "triton_op",
    )  # fmt: skip
    return any(
        decorator.rpartition(".")[2] not in kept for decorator in decorators(tree).get(name, ())
    )

"""What a kernel's file says before anything starts: a syntax error, and its problem."""

from __future__ import annotations

import ast
from pathlib import Path

from cuassay.catalog import registry
from cuassay.errors import UsageError


def syntax_error(path: str) -> SyntaxError | None:
    """Return the syntax error of a Python candidate, None where it parses or is no Python file."""
    file = Path(path.partition("::")[0]).expanduser()
    if file.suffix != ".py" or not file.is_file():
        return None
    try:
        ast.parse(file.read_bytes(), filename=file.name)
    except SyntaxError as error:
        return error
    except (ValueError, OSError):  # null bytes and the like: the build says what it is
        return None
    return None


def found_problem(path: str) -> tuple[str, str]:
    """Return the problem of a kernel for which none was named, and in words why it is that one.

    A function of the file that is decorated with `problem`, else the catalogue's operator that is
    called like the entry function or the file. Raises UsageError where there is neither.
    """
    place, _, function = path.partition("::")
    file = Path(place).expanduser()
    names = [function] if function else []
    if file.suffix == ".py" and file.is_file():
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            tree = ast.Module(body=[], type_ignores=[])
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        for node in functions:
            if any(_is_problem(decorator) for decorator in node.decorator_list):
                return f"{file}:{node.name}", f"the file declares it as '{node.name}'"
        names += [node.name for node in functions if not node.name.startswith("_")]
    names.append(file.stem)
    known = registry.names()
    for name in names:
        if name in known:
            return name, f"the catalogue has an operator called '{name}'"
    raise UsageError(
        f"--problem is missing, and nothing says what {path} computes: no function in it is "
        "decorated with @problem, and neither the file nor a function is called like an operator "
        "of the catalogue (`cuassay problem list`); give --problem NAME, a folder or a file"
    )


def _is_problem(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "problem"

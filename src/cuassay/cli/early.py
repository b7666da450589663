"""What a kernel's file says before anything starts: a syntax error, and its problem."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuassay.catalog import registry
from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.python_text import parse_python

_REFERENCE = "reference"
_INPUTS = ("inputs", "get_inputs", "make_inputs", "example_inputs")
_PREPARE_TIMEOUT_S = 300.0
_LARGEST_BYTES = 8 * 2**20


def syntax_error(path: str) -> SyntaxError | None:
    """Return the syntax error of a Python candidate, None where it parses or is no Python file."""
    file = Path(path.partition("::")[0]).expanduser()
    if file.suffix != ".py" or not file.is_file():
        return None
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            return None  # whoever loads it says that no source is so large
        # The path as given: the error's line of text is read from there.
        ast.parse(file.read_bytes(), filename=str(file))
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError, OSError):  # the build says what it is
        return None
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a kernel is judged against when nobody named a problem, and in words why.

    `kernel` is the candidate as `cuassay check` takes it. With `reference` (a function of the
    kernel's file) `problem` is empty: it is written from that function and the arguments that the
    function `inputs` returns.
    """

    problem: str
    kernel: str
    why: str
    reference: str = ""
    inputs: str = ""


def found_problem(path: str) -> Found:
    """Return the problem of a kernel for which none was named.

    A function of the file that is decorated with `problem`; a KernelBench problem (`Model` and
    `get_inputs`) in the file or beside it, for a kernel that defines `ModelNew`; a function
    `reference` of the file with one that returns its inputs; else the catalogue's operator that is
    called like the entry function or the file. Raises UsageError where there is none of these.
    """
    place, _, function = path.partition("::")
    file = Path(place).expanduser()
    names = [function] if function else []
    if file.suffix == ".py" and file.is_file():
        tree = _parsed(file)
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        for node in functions:
            if any(_is_problem(decorator) for decorator in node.decorator_list):
                why = f"the file declares it as '{node.name}'"
                return Found(problem=f"{file}:{node.name}", kernel=path, why=why)
        if "ModelNew" in _classes(tree):
            # The KernelBench problem of a file that defines ModelNew.
            if _is_kernelbench(tree):
                return Found(
                    problem=str(file), kernel=path, why="the file defines Model beside ModelNew"
                )
            beside = [
                other
                for other in sorted(file.parent.glob("*.py"))
                if other != file and _is_kernelbench(_parsed(other))
            ]
            fitting = [o for o in beside if o.stem in file.stem or file.stem in o.stem] or beside
            if len(fitting) == 1:
                pair_why = f"{fitting[0].name} defines Model and get_inputs"
                return Found(problem=str(fitting[0]), kernel=path, why=pair_why)
            listed = ", ".join(other.name for other in beside) or "none"
            raise UsageError(
                f"--problem is missing: {file} defines ModelNew, and of the files beside it "
                f"{listed} "
                "define Model and get_inputs; give --problem FILE.py"
            )
        if any(node.name == _REFERENCE for node in functions):
            return _with_reference(file, functions, function)
        names += [node.name for node in functions if not node.name.startswith("_")]
    names.append(file.stem)
    known = registry.names()
    for name in names:
        if name in known:
            why = f"the catalogue has an operator called '{name}'"
            return Found(problem=name, kernel=path, why=why)
    raise UsageError(
        f"--problem is missing, and nothing says what {path} computes: no function in it is "
        "decorated with @problem or called 'reference', and neither the file nor a function is "
        "called like an operator of the catalogue (`cuassay problem list`); give --problem NAME, "
        "a folder or a file"
    )


def known_problem(where: str) -> None:
    """Raise UnknownNameError for what can only be a name of the catalogue, and is none."""
    name = where.partition("@")[0]
    if name.isidentifier() and not Path(where).exists() and name not in registry.names():
        raise UnknownNameError(
            "problem",
            where,
            registry.names(),
            "`cuassay problem list` names the operators of the catalogue; or give a folder or file",
        )


def prepared(found: Found) -> tuple[str, str]:
    """Return the problem and the candidate of a kernel with a reference beside it.

    They are written by a process of its own, which imports the file. Raises UsageError with what
    that process says.
    """
    file, _, kernel = found.kernel.partition("::")
    command = (sys.executable, "-P", "-m", "cuassay.formats.beside")
    ran = subprocess.run(
        [*command, file, kernel, found.reference, found.inputs],
        capture_output=True,
        text=True,
        timeout=_PREPARE_TIMEOUT_S,
        check=False,
    )
    last = (ran.stdout.strip().splitlines() or [""])[-1]
    if ran.returncode == 0 and last.startswith("{"):
        places = json.loads(last)
        return str(places["problem"]), str(places["candidate"])
    said = (ran.stderr.strip().splitlines() or ["it ended without a word"])[-1]
    raise UsageError(f"{file}: {said}")


def _with_reference(file: Path, functions: Sequence[ast.FunctionDef], chosen: str) -> Found:
    names = [node.name for node in functions]
    inputs = next((name for name in _INPUTS if name in names), "")
    if not inputs:
        raise UsageError(
            f"{file} has a function 'reference' and none that returns its inputs; add "
            'def inputs(): return {"x": torch.randn(64, 256)}, with the arguments of one call by '
            "name, or give --problem"
        )
    others = [
        node.name
        for node in functions
        if node.name not in (_REFERENCE, *_INPUTS)
        and not node.name.startswith("_")
        and not any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    preferred = [name for name in (chosen, "run", "kernel", file.stem) if name in others]
    kernel = (preferred or others or [""])[0]
    if not kernel or (not preferred and len(others) > 1):
        raise UsageError(
            f"{file} has a function 'reference', and nothing says which of its other functions "
            f"({', '.join(others) or 'none'}) is the kernel; give {file}::FUNCTION"
        )
    why = f"'{kernel}' against the function 'reference' of the same file, on '{inputs}()'"
    return Found(
        problem="", kernel=f"{file}::{kernel}", why=why, reference=_REFERENCE, inputs=inputs
    )


def _parsed(file: Path) -> ast.Module:
    if not file.is_file():  # a pipe has no end
        return ast.Module(body=[], type_ignores=[])
    try:
        return parse_python(file.read_bytes())
    except (SyntaxError, OSError):
        return ast.Module(body=[], type_ignores=[])


def _classes(tree: ast.Module) -> frozenset[str]:
    return frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef))


def _is_kernelbench(tree: ast.Module) -> bool:
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return "Model" in _classes(tree) and "get_inputs" in made


def _is_problem(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "problem"

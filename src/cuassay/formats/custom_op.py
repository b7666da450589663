"""Operators registered with torch.library: `FILE.py::torch.ops.NAMESPACE.NAME` as a candidate."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from cuassay.errors import CandidateError, suggestion
from cuassay.formats import signature
from cuassay.formats.entry import find_entry
from cuassay.formats.textfile import read_text
from cuassay.model.candidate import Candidate, Convention, Language, SourceFile
from cuassay.model.problem import Problem

PREFIX = "torch.ops."
_ENTRY = "cuassay_entry.py"
_NAME = re.compile(r"torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?")
_REGISTERS = ("custom_op", "triton_op", "define", "register_kernel", "impl")
_SOURCE = '''"""Calls {operator}, which {module}.py registers."""

import torch

import {module}  # noqa: F401


def run(*arguments):
    return {operator}(*arguments)
'''


def load_custom_op(file: Path, operator: str, problem: Problem) -> Candidate:
    """Return the candidate that calls an operator which `file` registers when it is imported.

    Raises CandidateError where the file registers no such operator.
    """
    found = _NAME.fullmatch(operator)
    if found is None:
        raise CandidateError(f"'{operator}' is no operator; expected torch.ops.NAMESPACE.NAME")
    if file.suffix != ".py":
        raise CandidateError(
            f"{file} is no Python file; expected the one that registers {operator}"
        )
    text = read_text(file, CandidateError)
    name = f"{found.group(1)}::{found.group(2)}"
    known = _registered(text, file)
    if known and name not in known:
        near = suggestion(name, known)
        raise CandidateError(
            f"{file} registers no operator '{name}'{': ' + near if near else ''} (it registers: "
            f"{', '.join(sorted(known))})"
        )
    module = file.stem if file.stem.isidentifier() else "custom_ops"
    # The registered function may take the outputs too.
    function = _registered(text, file).get(f"{found.group(1)}::{found.group(2)}")
    if function is None:
        convention = Convention.RETURNS
    else:
        convention = find_entry(text, function, problem, where=str(file))[1]
    return Candidate(
        name=found.group(2),
        sources=(
            SourceFile(path=_ENTRY, text=_SOURCE.format(operator=operator, module=module)),
            SourceFile(path=f"{module}.py", text=text),
        ),
        entry_file=_ENTRY,
        adapter=_ENTRY,
        entry_function="run",
        language=Language.PYTHON,
        convention=convention,
        origin=file.absolute(),
    )


def _registered(text: str, file: Path) -> dict[str, str | None]:
    """Return the qualified names that literals of the file register, with their functions."""
    try:
        tree = signature.syntax_tree(text, str(file))
    except SyntaxError:
        return {}
    found: dict[str, str | None] = {}
    for node in ast.walk(tree):
        calls = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
        for call in calls:
            name = _registers(call)
            if name and (name not in found or isinstance(node, ast.FunctionDef)):
                found[name] = node.name if isinstance(node, ast.FunctionDef) else None
    return found


def _registers(node: ast.AST) -> str:
    match node:
        case ast.Call(
            func=ast.Attribute(attr=attribute) | ast.Name(id=attribute),
            args=[ast.Constant(value=str(name)), *_],
        ) if attribute in _REGISTERS and "::" in name:
            return name.partition("(")[0]
    return ""

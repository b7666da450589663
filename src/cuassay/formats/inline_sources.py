"""CUDA C++ inside Python: the sources that `load_inline` is given, read from the file's text."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from cuassay.errors import CandidateError
from cuassay.formats.extension_launches import as_kernels
from cuassay.formats.launches import EXAMPLE
from cuassay.model.candidate import Candidate, Language, SourceFile
from cuassay.model.problem import Problem


def inline_as_kernels(candidate: Candidate, problem: Problem) -> Candidate:
    """Return a Python file around `load_inline(cuda_sources=...)` as raw kernels with launches.

    The entry function has to hand its parameters on, in order, to one function of the extension.
    Raises CandidateError that says what cannot be read, and what to declare instead.
    """
    text = next(s.text for s in candidate.sources if s.path == candidate.entry_file)
    tree = ast.parse(text)
    cuda = "\n".join(_cuda_sources(tree))
    called = _called(tree, candidate.entry_function)
    if not cuda or called is None:
        what = "no text given as cuda_sources is found" if not cuda else (
            f"'{candidate.entry_function}' does more than hand its parameters on to the extension"
        )  # fmt: skip
        raise CandidateError(
            f"'{candidate.name}' compiles CUDA C++ by load_inline, which is executed without a GPU "
            f"only where its launches can be read, and {what}. Give the kernels as a .cu file with "
            f"their launches in a comment such as\n{EXAMPLE}"
        )
    extension = dataclasses.replace(
        candidate,
        sources=(SourceFile(path="inline.cu", text=cuda),),
        entry_file="inline.cu",
        entry_function=called,
        language=Language.CUDA_EXTENSION,
    )
    return as_kernels(extension, problem)


def is_inline(candidate: Candidate) -> bool:
    """Whether a Python candidate brings CUDA C++ of its own in strings."""
    python = candidate.language is Language.PYTHON
    return python and any("load_inline" in source.text for source in candidate.sources)


def _cuda_sources(tree: ast.Module) -> Iterator[str]:
    texts = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("load_inline"):
            continue
        for keyword in node.keywords:
            if keyword.arg == "cuda_sources":
                yield from _strings(keyword.value, texts)


def _strings(node: ast.expr, texts: dict[str, ast.expr]) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for part in parts:
                yield from _strings(part, texts)
        case ast.Name(id=name) if name in texts:
            yield from _strings(texts.pop(name), texts)


def _called(tree: ast.Module, entry: str) -> str | None:
    """Return the extension's function that the entry function hands its parameters on to."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name != entry:
            continue
        parameters = [argument.arg for argument in node.args.args]
        last = node.body[-1]
        if isinstance(last, ast.Return) and isinstance(last.value, ast.Call):
            call = last.value
            handed = [_plain(argument) for argument in call.args]
            if isinstance(call.func, ast.Attribute) and handed == parameters:
                return call.func.attr
    return None


def _plain(node: ast.expr) -> str:
    """Return the name behind `x` or `x.contiguous()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _plain(node.func.value) if node.func.attr == "contiguous" else ""
    return node.id if isinstance(node, ast.Name) else ""

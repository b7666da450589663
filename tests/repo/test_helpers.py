"""A name saves its reader a look inside: private functions called once do not become more."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = (_ROOT / "src", *(_ROOT / "packages").glob("*/src"))
_MOST_PERCENT = 16.8  # 30.9 before the first were inlined; lower it as they go


def _single_use(tree: ast.Module) -> tuple[int, int]:
    """Return how many functions a module has, and how many are private and mentioned once."""
    functions, mentions = Counter[str](), Counter[str]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions[name] += 1
            case ast.Name(id=name) | ast.Attribute(attr=name):
                mentions[name] += 1
            case ast.ImportFrom(names=names):
                mentions.update(alias.name for alias in names)
    private = (name for name in functions if name.startswith("_") and name[:2] != "__")
    return functions.total(), sum(functions[name] for name in private if mentions[name] == 1)


def test_private_functions_that_are_called_once_do_not_become_more() -> None:
    files = [file for source in _SOURCES for file in source.rglob("*.py")]
    counts = [_single_use(ast.parse(file.read_text(encoding="utf-8"))) for file in files]
    total, once = (sum(column) for column in zip(*counts, strict=True))
    assert 100 * once / total <= _MOST_PERCENT, (
        f"{once} of {total} functions are private and mentioned once. Inline one whose name saves "
        "the reader no look inside"
    )

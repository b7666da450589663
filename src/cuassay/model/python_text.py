"""The syntax tree of Python that somebody else wrote, made so that any reader survives it.

A sum of 800 terms parses, and whatever walks or prints it by recursion meets Python's limit. All
that reads a candidate's text begins here.
"""

from __future__ import annotations

import ast

MOST_LEVELS = 50  # printing takes up to six calls of Python's thousand for each level


def parse_python(text: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """Return the tree of `text`; an expression nested deeper than MOST_LEVELS is cut off there.

    `None` stands in the place of what is cut. Raises SyntaxError, also where Python has other names
    for it (null bytes, parentheses or sums that are nested beyond what it can parse).
    """
    try:
        tree = ast.parse(text, filename=filename)
    except (ValueError, RecursionError, MemoryError) as failure:
        raise SyntaxError(f"cannot be parsed: {failure}") from None
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, level = waiting.pop()
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                for place, part in enumerate(value):
                    if isinstance(part, ast.AST):
                        value[place] = _kept(part, level, waiting)
            elif isinstance(value, ast.AST):
                setattr(node, name, _kept(value, level, waiting))
    return tree


def span_of(node: ast.expr) -> tuple[int, int, int, int]:
    """Return line and column of an expression, its last line and the column after its end."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _kept(part: ast.AST, level: int, waiting: list[tuple[ast.AST, int]]) -> ast.AST:
    """Return a part of a node, or what stands for it where it lies too deep."""
    if isinstance(part, ast.expr) and level >= MOST_LEVELS:
        return ast.copy_location(ast.Constant(value=None), part)
    waiting.append((part, 0 if isinstance(part, ast.stmt) else level + 1))
    return part

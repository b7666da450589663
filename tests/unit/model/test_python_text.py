"""Texts that are made to stop whoever reads them: what reads a candidate's text survives all."""

from __future__ import annotations

import ast
import time

import pytest

from cuassay.diagnosis.edits import edits
from cuassay.formats import signature
from cuassay.inputs.named_sizes import NamedSize, SizeUse, named_sizes
from cuassay.model.diagnosis import Cause
from cuassay.model.python_text import MOST_LEVELS, parse_python

_SUM = "+".join(["0"] * 800)
_TEXTS = {
    "index": f"def run(x):\n    return x.shape[{_SUM}] > 5",
    "size": f"def run(x):\n    return x.size({_SUM}) % 8 == 0",
    "call": f"def run(x):\n    return gelu(x, approximate={_SUM})",
    "attributes": "def run(x):\n    return x" + ".a" * 900,
    "nots": "def run(x):\n    return " + "not " * 900 + "x",
    "calls": "def run(x):\n    return " + "f(" * 90 + "x" + ")" * 90,
    "parentheses": "def run(x):\n    return " + "(" * 5000 + "x" + ")" * 5000,
    "signs": "def run(x):\n    return " + "-" * 200000 + "x",
    "terms": "def run(x):\n    return " + "+".join(["x"] * 100000),
    "branches": "def run(x):\n    if x == 3: y = 1\n"
    + "".join(f"    elif x == {n}: y = 1\n" for n in range(4, 400)),
    "null": "def run(x):\n    return x\0",
}


@pytest.mark.parametrize("text", _TEXTS.values(), ids=_TEXTS)
def test_a_text_is_read_or_is_a_syntax_error(text: str) -> None:
    named_sizes([text])
    for cause in list(Cause)[::20]:
        edits(text, cause=cause)
    try:
        tree = parse_python(text)
    except SyntaxError:
        return
    ast.unparse(next(node for node in ast.walk(tree) if isinstance(node, ast.expr)))
    assert "run" in signature.functions(signature.syntax_tree(text, "kernel.py"))


def test_what_lies_beside_a_deep_expression_is_read() -> None:
    text = f"a = x.shape[{_SUM}] > 5\nb = x.shape[1] > 77\n"
    assert NamedSize(value=77, kind=SizeUse.BOUND) in named_sizes([text])


def test_an_expression_of_the_depth_that_people_write_stays_whole() -> None:
    text = "+".join("abcdefgh"[n % 8] for n in range(MOST_LEVELS - 5))
    assert ast.dump(parse_python(text)) == ast.dump(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"{a} = {b}" for a in "abcdefg" for b in "abcdefg" for _ in range(20))
        + "\na == b",
        "#include <x>\n" + "const " * 20000,
        "#include <x>\n" + "/*" * 200000,
        "#include <x>\nconst int " + " " * 200000,
    ],
    ids=["names", "constants", "comments", "spaces"],
)
def test_a_text_of_many_ways_is_read_in_seconds(text: str) -> None:
    began = time.process_time()
    named_sizes([text])
    assert time.process_time() - began < 5

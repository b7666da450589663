"""Nothing decides by matching text that cuassay wrote: kinds are types, errors carry types.

A decision is a comparison, a substring, a prefix, a split or a regular expression. What is looked
for is one on an exception's words or on a message, label or reason, directly or by a name that was
given to it in the same function. Members of an enumeration are types and may be compared.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = (_ROOT / "src" / "cuassay", *(_ROOT / "packages").glob("*/src/*"))

_WORDS = frozenset({"message", "label", "reason", "because", "headline", "title", "summary"})
_SPLITS = frozenset(
    {
        "startswith",
        "endswith",
        "find",
        "rfind",
        "index",
        "count",
        "partition",
        "rpartition",
        "split",
    }
)
_MATCHES = frozenset({"match", "search", "fullmatch", "findall", "finditer"})

# Words that others wrote and for which they have no type: (file, function) -> whose they are.
_FOREIGN = {
    ("build/cuda/hosted.py", "build_hosted"): "the dynamic loader's",
    ("checks/endings/findings.py", "claims_no_system"): "CUDA's",
    ("checks/endings/findings.py", "exception_text"): "the candidate's, for a message alone",
    ("checks/endings/findings.py", "memory_fault"): "CUDA's",
    ("checks/interface/compiled.py", "_raises"): "torch's compiler's",
    ("formats/launches.py", "_toml"): "tomllib's",
    ("judge/run/unwatched.py", "claims_no_resources"): "CUDA's",
    ("oracle/lift/run.py", "_unliftable"): "torch's",
    ("oracle/lift/session.py", "call"): "torch's",
    ("sandbox/guest/memory/guard_dispatch.py", "__torch_dispatch__"): "torch's",
    ("sandbox/no_memory.py", "says_no_memory"): "torch's and CUDA's",
}


def decisions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the function and line of each decision by text."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            words = _Words(function)
            for node in ast.walk(function):
                if words.decided_by(node):
                    yield function.name, node.lineno  # type: ignore[attr-defined]


class _Words:
    """Which expressions of one function are the words of an exception, a message or a label."""

    def __init__(self, function: ast.AST) -> None:
        nodes = list(ast.walk(function))
        self._errors = {n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name}
        self._errors |= {
            n.arg
            for n in nodes
            if isinstance(n, ast.arg) and n.annotation is not None
            if any(part in ast.unparse(n.annotation) for part in ("Exception", "Error"))
        }
        self._names: set[str] = set()
        size = -1
        while size != len(self._names):  # a name of a name of words
            size = len(self._names)
            for node in nodes:
                if isinstance(node, ast.Assign) and self._has(node.value):
                    self._names |= {t.id for t in node.targets if isinstance(t, ast.Name)}

    def _has(self, node: ast.expr) -> bool:
        """Whether an expression is words: no part of a larger one, no result of a decision."""
        match node:
            case ast.Name(id=name):
                return name in self._names or name in _WORDS
            case ast.Attribute(attr=name):
                return name in _WORDS
            case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=name)]):
                return name in self._errors
            case ast.Call(func=ast.Name(id="exception_text")):
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                return name not in _SPLITS and self._has(value)  # text.lower(), text.strip()
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="args")):
                return name in self._errors
            case ast.Subscript(value=value):
                return self._has(value)
            case ast.IfExp(body=body, orelse=orelse):
                return self._has(body) or self._has(orelse)
        return False

    def decided_by(self, node: ast.AST) -> bool:
        """Whether a node decides by words."""
        match node:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                listed = isinstance(right, ast.Tuple | ast.List | ast.Set)
                return self._has(right) or (listed and self._has(left))
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                if _member(left) or _member(right) or _empty(right):
                    return False
                return self._has(left) or self._has(right)
            case ast.Match(subject=subject):
                return self._has(subject)
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=arguments):
                if name in _SPLITS:  # the first line of words is words
                    return bool(arguments) and not _line_end(arguments[0]) and self._has(value)
                return name in _MATCHES and any(self._has(each) for each in arguments)
        return False


def _member(node: ast.expr) -> bool:
    """Whether an expression is a member of an enumeration, by the way it is written."""
    return isinstance(node, ast.Attribute) and (
        isinstance(node.value, ast.Name) and node.value.id[:1].isupper() and node.attr.isupper()
    )


def _line_end(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "\n"


def _empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


@pytest.mark.parametrize("folder", _SOURCES, ids=lambda folder: folder.name)
def test_nothing_decides_by_text_that_cuassay_wrote(folder: Path) -> None:
    found = {
        (str(path.relative_to(folder)), function): line
        for path in sorted(folder.rglob("*.py"))
        for function, line in decisions(ast.parse(path.read_text()))
    }
    ours = {place: line for place, line in found.items() if place not in _FOREIGN}
    assert not ours, f"give the kind a type, or the error a class of its own: {ours}"


def test_every_exception_to_the_rule_is_still_needed() -> None:
    for name, function in _FOREIGN:
        tree = ast.parse((_SOURCES[0] / name).read_text())
        assert function in {found for found, _ in decisions(tree)}, (name, function)


@pytest.mark.parametrize(
    "body",
    [
        "try: f()\n except E as error:\n  return 'no size' in str(error)",
        "try: f()\n except E as error:\n  text = str(error).lower()\n  return 'size' in text",
        "return raised.message.startswith('no size')",
        "return scenario.label == 'small B'",
        "return scenario.label.split(' ', 1)[0]",
        "text = check.outcome.reason\n other = text\n return re.match('needs', other)",
        "match raised.message:\n  case 'no': return 1",
        "return case.label in ('small A', 'small B')",
    ],
)
def test_the_ways_to_decide_by_text_are_seen(body: str) -> None:
    tree = ast.parse(f"def found(raised, scenario, check, case):\n {body}\n")
    assert [name for name, _ in decisions(tree)] == ["found"]


@pytest.mark.parametrize(
    "body",
    [
        "return scenario.label == Trying.SIDE",
        "return f'{raised.message} at {case.label}'",
        "return case.label != ''",
        "return raised.claim is Claim.NO_TOOL",
    ],
)
def test_what_is_no_decision_by_text_is_left_alone(body: str) -> None:
    tree = ast.parse(f"def found(raised, scenario, case):\n {body}\n")
    assert not [*decisions(tree)]

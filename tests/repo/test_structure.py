"""How large a class and a module may get: more is two ideas. Exceptions have a reason."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = {
    "cuassay": _ROOT / "src/cuassay",
    "ptxsan": _ROOT / "packages/ptxsan/src/ptxsan",
    "cuassay_guard": _ROOT / "packages/cuassay-guard/src/cuassay_guard",
    "cuassay_loops": _ROOT / "packages/cuassay-loops/src/cuassay_loops",
    "cuassay_adapters": _ROOT / "packages/cuassay-adapters/src/cuassay_adapters",
    "cuassay_attest": _ROOT / "packages/cuassay-attest/src/cuassay_attest",
}
_MOST_METHODS = 30
_MOST_ATTRIBUTES = 15
_MOST_IMPORTS = 25

_RECORD = "a frozen record: its fields are a document that is kept, shown or sent as a whole"
_MANY_METHODS: dict[str, str] = {}
_MANY_ATTRIBUTES = {
    **dict.fromkeys(
        (
            "cuassay_guard.capsules.evidence.CapsuleHeader",
            "cuassay_guard.config.GuardConfig",
            "cuassay_guard.watch.GuardStats",
            "cuassay.inputs.budget.Budget",
            "cuassay.model.audit.AuditResult",
            "cuassay_loops.results.BlameReport",
            "cuassay_loops.results.CellResult",
            "cuassay_loops.results.InferReport",
            "cuassay.model.loop.LoopSettings",
            "cuassay_loops.results.TrainReport",
            "cuassay.model.machine.LaunchEvidence",
            "cuassay.model.outcome.Finding",
            "cuassay.model.problem.Problem",
            "cuassay.model.recording.RecordedLaunch",
            "cuassay.model.verdict.Verdict",
            "cuassay.oracle.compare.outputs.Comparison",
            "cuassay.oracle.truth.types.OutputTruth",
            "cuassay.sandbox.limits.Limits",
            "ptxsan.isa.Row",
        ),
        _RECORD,
    ),
    "cuassay_guard.watch.Watch": "what threads of production calls share of one guarded kernel",
    "cuassay.judge.decide.tally.Tally": "what a trial counts on its way to a verdict",
    "cuassay.sandbox.host.handle.WorkerHandle": "one process: its pipes, memory, limits and end",
    "ptxsan.prove.execute.Execution": "still to be split: paths, and what is known on them",
}
_MANY_IMPORTS: dict[str, str] = {}


@functools.cache  # only where these tests run: every process of a test run imports this file
def _modules() -> dict[str, ast.Module]:
    """Return each module's name and tree."""
    found = {}
    for package, folder in _SOURCES.items():
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *(part for part in parts if part != "__init__")))
            found[name] = ast.parse(file.read_text(encoding="utf-8"))
    return found


@functools.cache
def _counts() -> dict[str, dict[str, int]]:
    """Return how many methods and attributes each class has, and imports each module."""
    methods, attributes, imports = {}, {}, {}
    for module, tree in _modules().items():
        nodes = list(ast.walk(tree))
        imports[module] = len(_imports(nodes))
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                methods[f"{module}.{node.name}"] = len(_methods(node))
                attributes[f"{module}.{node.name}"] = len(_attributes(node))
    return {"methods": methods, "attributes": attributes, "imports": imports}


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]


def _attributes(node: ast.ClassDef) -> set[str]:
    """Return the fields that a class declares and what its methods set on `self`."""
    declared = {
        one.target.id
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    stored = {
        one.attr
        for method in _methods(node)
        for one in ast.walk(method)
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Store)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
    }
    return declared | stored


def _imports(nodes: Iterable[ast.AST]) -> set[str]:
    named = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    named |= {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    return {name for name in named if name.partition(".")[0] in _SOURCES}


_LIMITS = [
    pytest.param("methods", _MOST_METHODS, _MANY_METHODS, id="methods of a class"),
    pytest.param("attributes", _MOST_ATTRIBUTES, _MANY_ATTRIBUTES, id="attributes of a class"),
    pytest.param(
        "imports", _MOST_IMPORTS, _MANY_IMPORTS, id="imports of a module from its package"
    ),
]


@pytest.mark.parametrize(("what", "most", "excepted"), _LIMITS)
def test_what_is_larger_is_named_with_a_reason(
    what: str, most: int, excepted: dict[str, str]
) -> None:
    counts = _counts()[what]
    assert len(counts) > 500
    larger = {name: count for name, count in counts.items() if count > most}
    assert not {name: n for name, n in larger.items() if name not in excepted}, f"at most {most}"
    assert not set(excepted) - set(larger), "small by now: take the exception out"
    assert all(excepted.values())


def test_a_class_that_grows_is_seen() -> None:
    body = "\n".join(f"    def f{n}(self): self.a{n} = {n}" for n in range(31))
    (node,) = (one for one in ast.parse(f"class Grown:\n{body}").body)
    assert isinstance(node, ast.ClassDef)
    assert len(_methods(node)) == 31 > _MOST_METHODS
    assert len(_attributes(node)) == 31 > _MOST_ATTRIBUTES

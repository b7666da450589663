"""Who may import whom, and that nothing goes in circles.

The design's dependency directions are the table below; a new package has to be added to it.
Imports under TYPE_CHECKING are for readers only and do not count.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_SOURCE = _ROOT / "src"
_PACKAGE = _SOURCE / "cuassay"
_PTXSAN = _ROOT / "packages" / "ptxsan" / "src" / "ptxsan"
# Distributions of their own that know cuassay, and that it finds by entry point alone.
_PARTS = [
    _ROOT / "packages" / name / "src" / name.replace("-", "_")
    for name in ("cuassay-guard", "cuassay-loops", "cuassay-adapters", "cuassay-attest")
]

# Package -> packages or modules of cuassay that it may import.
_MAY_IMPORT: dict[str, set[str]] = {
    "closing": set(),
    "errors": set(),
    "settings": set(),
    "held_folder": set(),
    "home": {"settings"},
    "beneath": set(),
    "dispatch_modes": {"without_sympy"},
    "hooks": {"dispatch_modes"},
    "block_scaled": {"dispatch_modes", "hooks"},
    "without_sympy": set(),
    "tables": set(),
    "model": {"errors"},
    "formats": {
        "model", "errors", "home", "beneath", "catalog", "dispatch_modes", "hooks", "ranks",
    },
    "ranks": {"model", "errors"},
    "catalog": {"model", "errors", "formats"},
    "inputs": {"model", "errors", "formats", "tables"},
    "contract": {
        "model", "errors", "inputs", "formats", "oracle", "dispatch_modes", "hooks", "block_scaled",
    },
    "oracle": {
        "model", "errors", "dispatch_modes", "hooks", "block_scaled", "without_sympy", "tables",
    },
    "algebra": {
        "model", "errors", "oracle", "build", "dispatch_modes", "hooks", "ptxsan", "tables",
    },
    "build": {
        "model", "errors", "settings", "home", "ptxsan", "dispatch_modes", "block_scaled",
    },
    "sandbox": {
        "model", "errors", "settings", "home", "inputs", "build", "ptxsan", "dispatch_modes",
        "closing", "held_folder", "ranks",
    },
    "checks": {"model", "errors", "inputs", "oracle", "parts"},
    "cuassay_loops": {
        "model", "errors", "home", "formats", "catalog", "inputs", "oracle", "sandbox",
        "checks.endings.findings", "dispatch_modes", "build", "closing", "judge.environment",
        "capture", "cli", "engine", "report",
    },
    "diagnosis": {"model"},
    "judge": {
        "diagnosis", "model", "errors", "settings", "home", "formats", "inputs", "oracle",
        "build", "sandbox", "checks", "contract", "algebra", "__version__", "closing",
        "dispatch_modes", "hooks", "parts",
    },
    "cuassay_guard": {
        "model", "errors", "settings", "home", "formats", "oracle", "cli", "engine", "report",
    },
    "parts": {"errors"},
    "guard": {"parts"},
    "loops": {"parts"},
    "adapters": {"parts"},
    "report": {"model", "errors", "diagnosis", "closing"},
    "store": {"model", "errors", "home"},
    "engine": {
        "model", "errors", "home", "store", "__version__", "closing", "held_folder",
    },
    "audit": {"model", "errors", "beneath", "engine", "report", "store", "__version__"},
    "cli": {
        "model", "errors", "home", "engine", "report", "store", "audit",
        "catalog.registry",
        "checks.registry", "diagnosis", "__version__", "inputs.seeds",
        "agents", "verifier", "view", "formats.own_problem", "parts",
    },
    "api": {"model", "errors", "home", "engine", "report", "store", "formats"},
    "cuassay_adapters": {"model", "errors", "formats", "verifier", "closing"},
    "testing": {"model", "errors", "oracle"},
    "view": {"model", "errors", "report", "store"},
    "verifier": {"model", "errors", "home", "engine", "report", "api", "closing"},
    "agents": {
        "model", "errors", "engine", "report", "store", "api", "verifier", "__version__",
    },
    "cuassay_attest": {"model", "errors", "home", "formats", "cli", "report", "store"},
    "pytest_plugin": {"model", "errors", "home", "engine", "report", "api", "__version__"},
    "capture": {"errors"},
    "launches": {"errors", "build", "model", "store.files"},
    "__main__": {"cli"},
    "__init__": set(),
}  # fmt: skip
# Packages of the driver: no torch, no arrays, not even inside a function.
_LIGHT = {"errors", "settings", "home", "held_folder", "model", "report", "store", "engine",
    "audit", "cli", "api", "__init__", "closing",
    "pytest_plugin", "cuassay_attest", "verifier", "agents", "view",
}  # fmt: skip
_HEAVY = {"torch", "numpy", "triton", "ray", "ml_dtypes", "safetensors"}
_FILES = sorted(file for folder in (_PACKAGE, *_PARTS) for file in folder.rglob("*.py"))
_PTXSAN_FILES = sorted(_PTXSAN.rglob("*.py"))


def _module(file: Path) -> str:
    (root,) = (one.parent for one in (_PACKAGE, _PTXSAN, *_PARTS) if file.is_relative_to(one))
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


_MODULES = {_module(file) for file in (*_FILES, *_PTXSAN_FILES)}


def _package(file: Path) -> str:
    """Return the package of cuassay, or the distribution beside it, that has a file."""
    name, *below = _module(file).split(".")
    return name if name != "cuassay" else below[0] if below else "__init__"


def _found(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
    """Yield (dotted name, whether inside a function) of a tree's imports."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(child, ast.Import):
            yield from ((alias.name, inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports hide who imports whom"
            yield from ((f"{child.module}.{alias.name}", inside) for alias in child.names)
        match child:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="importlib"), attr="import_module"),
                args=[ast.Constant(value=str(named)), *_],
            ) if named.startswith(("cuassay", "ptxsan")):  # an import, however it is written
                yield named, inside
        yield from _found(child, inside or function)


@functools.cache
def _imported(file: Path) -> tuple[tuple[str, bool], ...]:
    return tuple(_found(_tree(file), False))


def _imports(file: Path, *, inside_functions: bool) -> Iterator[str]:
    """Yield the dotted names that a file imports; `from a import b` yields a.b."""
    return (name for name, inside in _imported(file) if inside_functions or not inside)


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _ids(file: Path) -> str:
    return _module(file)


@pytest.mark.parametrize("file", _FILES, ids=_ids)
def test_dependencies_point_one_way(file: Path) -> None:
    package = _package(file)
    assert package in _MAY_IMPORT, f"add package '{package}' to the table of this test"
    for name in _imports(file, inside_functions=True):
        if package in _LIGHT:
            assert name.split(".")[0] not in _HEAVY, f"{name} in a package of the driver"
        if name.split(".")[0] == "ptxsan":
            assert "ptxsan" in _MAY_IMPORT[package], name
        assert name.split(".")[0] not in {part.name for part in _PARTS} - {package}, (
            f"{name}: found by entry point (cuassay.parts), not imported"
        )
        if name.startswith("cuassay."):
            target = name.removeprefix("cuassay.")
            allowed = {package, *_MAY_IMPORT[package]}
            assert any(f"{target}.".startswith(f"{entry}.") for entry in allowed), name


def test_ptxsan_knows_nothing_of_cuassay() -> None:
    for file in sorted(_PTXSAN.parents[1].rglob("*.py")):
        for name in _imports(file, inside_functions=True):
            assert name.split(".")[0] not in {"cuassay", "tests"}, f"{file}: {name}"


def test_the_guest_imports_nothing_of_the_host() -> None:
    for file in sorted((_PACKAGE / "sandbox" / "guest").rglob("*.py")):
        for name in _imports(file, inside_functions=True):
            assert not name.startswith("cuassay.sandbox.host"), f"{file.name}: {name}"


def test_no_import_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for file in (*_FILES, *_PTXSAN_FILES):
        module = _module(file)
        names = set(_imports(file, inside_functions=False))
        names |= {name.rpartition(".")[0] for name in names}
        graph[module] = {name for name in names if name in _MODULES} - {module, "cuassay", "ptxsan"}
    tuple(graphlib.TopologicalSorter(graph).static_order())


def test_imports_inside_functions_hide_no_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for file in (*_FILES, *_PTXSAN_FILES):
        found = _imports(file, inside_functions=True)
        names = {name if name in _MODULES else name.rpartition(".")[0] for name in found}
        graph[_module(file)] = (names & _MODULES) - {_module(file), "cuassay", "ptxsan"}
    tuple(graphlib.TopologicalSorter(graph).static_order())


# Where numbers that nobody can draw again are wanted: what a hostile process finds in memory or
# must not guess. Names of files come from secrets.token_hex, which seeds nothing.
_UNSEEDED = {
    "inputs/seeds.py", "sandbox/guest/process/child.py", "sandbox/guest/memory/guard_zones.py",
    "build/recording/unwritten.py",
}  # fmt: skip
_DRAWS = {"random", "randint", "randrange", "choice", "shuffle", "uniform", "getrandbits"}


def test_random_numbers_come_from_derived_seeds() -> None:
    for file in _FILES:
        if "/".join(file.parts[len(_PACKAGE.parts) :]) in _UNSEEDED:
            continue
        text = file.read_text(encoding="utf-8")
        if not any(name in text for name in ("secrets", "random")):
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Attribute(value=ast.Name(id="secrets"), attr=name):
                    assert name in {"token_hex", "token_urlsafe", "compare_digest"}, file
                case ast.Call(func=ast.Attribute(value=ast.Name(id="random"), attr=name)):
                    assert name not in _DRAWS or _is_local(file, "random"), f"{file}: {name}"
                case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="urandom")):
                    raise AssertionError(file)


def _is_local(file: Path, name: str) -> bool:
    """Whether a file has no module of this name: it is a seeded generator."""
    return name not in set(_imports(file, inside_functions=True))


def test_the_table_names_what_exists() -> None:
    for entry in {*_MAY_IMPORT, *(name for names in _MAY_IMPORT.values() for name in names)}:
        module = f"cuassay.{entry}".removesuffix(".__init__")
        assert {module, entry} & _MODULES or entry in {"__version__", "ptxsan"}, (
            f"'{entry}' is not a module"
        )


# Each module is imported where exactly what the largest module that it imports needs is there, and
# forgotten after those that need it. Other people's packages are there from the start.
_ALONE = """
import gc, importlib, json, sys, traceback

def forget(added):
    for name in added:
        if name.partition(".")[0].startswith(("cuassay", "ptxsan")):
            module = sys.modules.pop(name)
            package, _, last = name.rpartition(".")
            if package in sys.modules and getattr(sys.modules[package], last, None) is module:
                delattr(sys.modules[package], last)

def visit(children):
    failed = False
    for name, below in children.items():
        before = set(sys.modules)
        try:
            importlib.import_module(name)
        except BaseException:
            print(name, flush=True)
            traceback.print_exc()
            failed = True
        else:
            failed |= visit(below)
        forget(set(sys.modules) - before)
    return failed

for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
gc.disable()  # what is imported stays
sys.exit(visit(json.load(sys.stdin)))
"""
_LIGHT_PACKAGES = ("numpy", "pydantic", "click", "rich.console")
_HEAVY_PACKAGES = (*_LIGHT_PACKAGES, "torch._dynamo", "numba", "triton")


def _needs() -> dict[str, set[str]]:
    """Return what each module imports at its top, packages of the imported modules included."""
    found = {}
    for file in (*_FILES, *_PTXSAN_FILES):
        module, names = _module(file), set(_imports(file, inside_functions=False))
        for name in {module, *names}:
            parts = name.split(".")
            names |= {".".join(parts[:count]) for count in range(1, len(parts))}
        found[module] = names - {module}
    return found


def _closure(module: str, needs: dict[str, set[str]], known: dict[str, set[str]]) -> set[str]:
    if module not in known:
        known[module] = set()  # a package and its module need each other
        below = (_closure(name, needs, known) for name in needs.get(module, ()))
        known[module] = needs.get(module, set()).union(*below)
    return known[module]


def _nested(parents: dict[str, str], parent: str) -> dict[str, Any]:
    return {name: _nested(parents, name) for name, above in parents.items() if above == parent}


def _imported_alone(parents: dict[str, str], packages: tuple[str, ...]) -> str:
    """Return what fails where each module is imported in a process that lacks all others."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _ALONE, *packages],
        input=json.dumps(_nested(parents, "")),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "",  # what one process compiles, the others read
            "PYTHONPATH": f"{_SOURCE}{os.pathsep}{_PTXSAN.parent}",
        },
    )
    return done.stdout + done.stderr if done.returncode else ""


# Adapters are importable where the package is that they are named after.
_ADAPTED = {"backendbench": "BackendBench"}


def _has_its_package(name: str) -> bool:
    above, _, module = name.rpartition(".")
    if above != "cuassay_adapters" or module in ("kernelbench", "reward", "stages"):
        return True
    return importlib.util.find_spec(_ADAPTED.get(module, module)) is not None


def test_each_module_imports_alone() -> None:
    needs = _needs()
    known: dict[str, set[str]] = {}
    for name in needs:
        _closure(name, needs, known)
    parents = {
        name: max(
            (one for one in needs[name] & needs.keys() if name not in known[one]),
            key=lambda one: (len(known[one]), one),
            default="",
        )
        for name in sorted(needs)
        if not name.endswith("__main__") and _has_its_package(name)
    }
    heavy = {
        name
        for name in parents
        if {one.partition(".")[0] for one in known[name]} & {"torch", "numba", "triton"}
    }
    above = set(heavy)
    while more := {parents[name] for name in above if parents[name]} - above:
        above |= more
    light = {name: parent for name, parent in parents.items() if name not in heavy}
    rest = {name: parents[name] for name in parents if name in above}
    assert _imported_alone(light, _LIGHT_PACKAGES) == ""
    assert _imported_alone(rest, _HEAVY_PACKAGES) == ""


def test_a_judge_imports_nothing_heavy_before_its_zygote_starts() -> None:
    """The process that workers are forked from imports torch while the judge imports its own."""
    needed = _closure("cuassay.judge.entry", _needs(), {})
    assert "cuassay.sandbox.host.nursery" in needed
    assert {one.partition(".")[0] for one in needed} & _HEAVY == set()

"""Every check in running order, and the page of every code. Imports no torch."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

from cuassay.checks.base import Check, CheckPage
from cuassay.errors import UnknownNameError

HEADINGS = (
    "What it does",
    "Why it matters",
    "How it decides",
    "Can it be wrong?",
    "Example",
    "Options",
)
_FOLDER = Path(__file__).parent
# Every check in running order, cheap host-state checks first and violent ones last. What API005
# finds decides with which state the others call a module. Those with a
# process of their own stand together: before and after one of them each costs a CUDA context. What
# the machine and a process apart do beside the others (`judge.session`) is asked for late.
_CHECKS = {
    "API005": "interface.initial_state",
    "API002": "interface.outputs",
    "API001": "interface.inputs_unchanged",
    "API003": "interface.inputs_used",
    "API004": "interface.own_inputs",
    "PROC001": "state.process_state",
    "STATE001": "state.earlier_calls",
    "MEM001": "memory.unwritten_outputs",
    "MEM002": "memory.out_of_bounds",
    "MEM004": "memory.masked_values",
    "KNOWN001": "numeric.known_failures",
    "NUM001": "numeric.values",
    "NUM002": "numeric.growth",
    "NUM004": "numeric.magnitudes",
    "NUM005": "numeric.non_finite",
    "META001": "numeric.relations",
    "SHP001": "numeric.shapes",
    "SHP002": "numeric.large_sizes",
    "FUZZ001": "numeric.search",
    "NUM003": "numeric.precision",
    "LAYOUT001": "interface.layouts",
    "GRAD001": "gradients.backward",
    "LOOP001": "numeric.training_inputs",
    "LOOP002": "numeric.decoding_inputs",
    "DET001": "numeric.determinism",
    "DET002": "numeric.batch_invariance",
    "GHOST001": "kernels.own_work",
    "CONFIG001": "kernels.configurations",
    "OPCHECK001": "interface.custom_ops",
    "KERNEL001": "kernels.requirements",
    "COMPILE001": "interface.compiled",
    "MEM101": "machine.accesses",
    "INIT101": "machine.uninitialized",
    "RACE101": "machine.races",
    "SYNC101": "machine.barriers",
    "PREC101": "machine.precision",
    "STREAM101": "machine.streams",
    "LAUNCH101": "machine.launch_limits",
    "BIG002": "machine.declared_sizes",
    "APART001": "state.apart",
    "RANK001": "ranks.late",
    "RANK002": "ranks.agreement",
    "RANK003": "ranks.graphs",
    "PERF001": "gpu.timing",
    "STREAM001": "gpu.streams",
    "GRAPH001": "gpu.graphs",
    "DEVICE001": "gpu.devices",
    "BIG001": "numeric.large_tensors",
    "RACE001": "gpu.load",
    "MEM003": "memory.sanitizer",
}
# The checks that decide a condition: where none of them judged anything, it was not decided.
DECIDED_BY = {
    "aliasing": ("LAYOUT001",),
    "autocast": ("STATE001",),
    "autograd": ("GRAD001", "API001"),
    "batch-invariant": ("DET002",),
    "compile": ("COMPILE001", "OPCHECK001"),
    "configurations": ("CONFIG001",),
    "consistent": ("API004",),
    "deterministic": ("DET001",),
    "devices": ("DEVICE001",),
    "evaluation-mode": ("API005",),
    "graph-scalars": ("GRAPH001",),
    "graphs": ("GRAPH001", "RANK003"),
    "groups": ("RANK001",),
    "initial-values": ("API005",),
    "large-tensors": ("BIG001",),
    "layouts": ("LAYOUT001", "KERNEL001"),
    "loaded-state": ("API005",),
    "magnitudes": ("NUM004",),
    "non-finite": ("NUM005",),
    "order": ("RACE101",),
    "own-kernels": ("GHOST001", "KERNEL001"),
    "padding": ("MEM004",),
    "precision": ("NUM001",),
    "process-state": ("PROC001",),
    "read-only-inputs": ("API001",),
    "resources": ("PROC001", "API002"),
    "shapes": ("SHP001", "SHP002"),
    "streams": ("STREAM001", "STREAM101"),
    "structure": ("API004",),
    "threads": ("STREAM001",),
    "training-mode": ("API005",),
}
# What an acceptance rests on at least: of each row one check must have judged something.
LEAST = {
    "the numbers of a plain call": ("NUM001",),
    "what a call returns": ("API002",),
    "its inputs after a call": ("API001",),
    "later calls in one process": ("STATE001",),
    "other sizes": ("SHP001", "SHP002", "NUM002"),
    "memory around its tensors": ("MEM002", "MEM001"),
}
_ENDINGS = ("BUILD001", "RUN001", "RUN002", "RUN003", "RUN004", "RUN005", "RUN006", "RUN007")


def _place(code: str) -> tuple[str, str]:
    """Return the module, below this package, and the class of a code."""
    return _CHECKS.get(code, "endings.pages"), code.capitalize()


@cache
def all_checks() -> tuple[Check, ...]:
    """Return one instance of every check in running order."""
    found = []
    for module, name in map(_place, _CHECKS):
        check: Check = getattr(importlib.import_module(f"cuassay.checks.{module}"), name)()
        found.append(check)
    return tuple(found)


def codes() -> tuple[str, ...]:
    """Return every code that `page` knows: checks in running order, then how runs end."""
    return (*_CHECKS, *_ENDINGS)


def page(code: str) -> CheckPage:
    """Return the documentation of a code, upper or lower case.

    Raises UnknownNameError with a suggestion where there is no such code.
    """
    known = code.strip().upper()
    if known not in codes():
        raise UnknownNameError("code", code, codes(), "see `cuassay explain` for all of them")
    module, name = _place(known)
    title, *lines = _docstring(_FOLDER / f"{module.replace('.', '/')}.py", name).splitlines()
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        if line in HEADINGS:
            sections.append((line, []))
        elif sections:
            sections[-1][1].append(line.strip())
    parsed = tuple((heading, "\n".join(body).strip()) for heading, body in sections)
    return CheckPage(code=known, title=title, sections=parsed)


def classes(code: str) -> tuple[str, ...]:
    """Return the failure classes that a code covers, read from its source."""
    module, name = _place(code)
    tree = ast.parse((_FOLDER / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        for line in node.body if isinstance(node, ast.ClassDef) and node.name == name else ():
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "classes":
                found: tuple[str, ...] = ast.literal_eval(line.value)
                return found
    return ()


def _docstring(file: Path, class_name: str) -> str:
    """Return a class's docstring from its source: also where python -OO stripped it."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return ast.get_docstring(node) or ""
    raise ValueError(f"{file.name} has no class {class_name}")

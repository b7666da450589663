"""The zoo as a tree of SOL-ExecBench directories: what `audit_throughput.py` audits.

Each catalogued problem becomes definition.json (its reference calls the catalogue), its
workloads and a cuassay.toml with its domains; each bug and each twin a solution.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from tests.zoo.manifest import PAIRS, Pair, load  # noqa: E402

from cuassay.model.domain import (  # noqa: E402
    Choice,
    Domain,
    Index,
    IntegerRange,
    Mask,
    Offsets,
    Opaque,
    Positive,
    Probability,
    Real,
)
from cuassay.model.problem import (  # noqa: E402
    ConstAxis,
    ExprAxis,
    Problem,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    VarAxis,
)
from cuassay.model.verdict import Profile  # noqa: E402


def write_tree(folder: Path, pairs: int) -> list[Pair]:
    """Write bugs and twins of the first `pairs` that fit the format; return those pairs."""
    chosen: list[Pair] = []
    for pair in _fitting():
        if len(chosen) == pairs:
            break
        problem = load(pair.problem)
        place = folder / _slug(pair.problem)
        if not place.exists():
            _write_problem(place, problem, pair.problem)
        for kind, file in (("bug", pair.bug), ("twin", pair.twin)):
            _write_solution(place / kind / pair.name, problem, file, author=kind)
        chosen.append(pair)
    return chosen


def _fitting() -> Iterator[Pair]:
    """Yield pairs of one round over the problems after another: many problems, few each."""
    groups: dict[str, list[Pair]] = {}
    for pair in PAIRS:
        quick = pair.since is Profile.QUICK and not pair.require
        if quick and not pair.needs_gpu and _convertible(load(pair.problem)):
            groups.setdefault(pair.problem, []).append(pair)
    while any(groups.values()):
        for members in groups.values():
            if members:
                yield members.pop(0)


def _convertible(problem: Problem) -> bool:
    made = problem.reference.generator is not None
    opaque = any(isinstance(spec.domain, Opaque) for spec in problem.inputs)
    plain = "<locals>" not in problem.reference.function and "." not in problem.reference.function
    return not made and not opaque and plain and problem.reference.path.is_file()


def _slug(name: str) -> str:
    return name.replace(":", "_").replace("@", "_")


def _write_problem(place: Path, problem: Problem, where: str) -> None:
    names = [spec.name for spec in problem.inputs]
    expressions: dict[str, str] = {}
    definition = {
        "name": _slug(where),
        "axes": {},
        "inputs": {spec.name: _spec(spec, expressions) for spec in problem.inputs},
        "outputs": {spec.name: _spec(spec, expressions) for spec in problem.outputs},
        "reference": _reference(where, names),
    }
    axes = {axis.name: _axis(axis) for axis in problem.axes}
    axes |= {n: {"type": "expr", "expression": e} for e, n in expressions.items()}
    place.mkdir(parents=True)
    (place / "definition.json").write_text(json.dumps(definition | {"axes": axes}, indent=1))
    lines = []
    for workload in problem.workloads:
        inputs = {
            name: {"type": "scalar", "value": source.value}
            for name, source in workload.sources.items()
            if isinstance(source, ScalarSource)
        }
        for spec in problem.inputs:
            if isinstance(spec, ScalarSpec) and spec.default is not None:
                inputs.setdefault(spec.name, {"type": "scalar", "value": spec.default})
        bound = {axis.name: workload.axes[axis.name] for axis in problem.var_axes()}
        lines.append(json.dumps({"uuid": workload.id, "axes": bound, "inputs": inputs}))
    (place / "workload.jsonl").write_text("\n".join(lines) + "\n")
    (place / "cuassay.toml").write_text("\n".join(_sidecar(problem)) + "\n")


def _reference(where: str, names: list[str]) -> str:
    call = f"_run({', '.join(names)})"
    if where.startswith("zoo:"):
        source = f"from tests.zoo.problems import {where.partition(':')[2]} as _run\n"
    else:
        source = (
            "from cuassay.catalog import registry\nfrom cuassay.formats.execute import "
            f"load_reference\n_run = load_reference(registry.get({where!r})).call\n"
        )
    return f"{source}\ndef run({', '.join(names)}):\n    return {call}\n"


def _axis(axis: ConstAxis | VarAxis | ExprAxis) -> dict[str, object]:
    match axis:
        case ConstAxis(value=value):
            return {"type": "const", "value": value}
        case ExprAxis(expression=expression):
            return {"type": "expr", "expression": expression}
    return {"type": "var"}


def _spec(spec: TensorSpec | ScalarSpec, expressions: dict[str, str]) -> dict[str, object]:
    if isinstance(spec, ScalarSpec):
        return {"shape": None, "dtype": spec.dtype.value}
    shape = []
    for dimension in spec.shape:
        plain = dimension.isidentifier() or dimension.isdecimal()
        name = dimension if plain else expressions.setdefault(dimension, f"e{len(expressions)}")
        shape.append(name)
    return {"shape": shape, "dtype": spec.dtype.value}


def _sidecar(problem: Problem) -> Iterator[str]:
    for spec in problem.inputs:
        fields = {"kind": _kind(spec.domain)} | _fields(spec.domain)
        listed = ", ".join(f"{key} = {json.dumps(value)}" for key, value in fields.items())
        yield f"domains.{spec.name} = {{ {listed} }}"
    for axis in problem.var_axes():
        top = f", max = {axis.maximum}" if axis.maximum else ""
        step = f", multiple_of = {axis.multiple_of}" if axis.multiple_of > 1 else ""
        yield f"axes.{axis.name} = {{ min = {axis.minimum}{top}{step} }}"


def _kind(domain: Domain) -> str:
    return "integer_range" if isinstance(domain, IntegerRange) else type(domain).__name__.lower()


def _fields(domain: Domain) -> dict[str, object]:
    match domain:
        case Real(low=low, high=high):
            return {k: v for k, v in (("low", low), ("high", high)) if v is not None}
        case Positive(low=low, high=high):
            return {"low": low, "high": high}
        case IntegerRange(low=lowest, high=highest):
            return {"low": lowest, "high": highest}
        case Probability(axis=position):
            return {"axis": position}
        case Index(axis=axis, sentinels=sentinels, unique=unique):
            return {"axis": axis, "sentinels": list(sentinels), "unique": unique}
        case Offsets(axis=axis):
            return {"axis": axis}
        case Mask(kind=kind, additive=additive):
            return {"pattern": kind, "additive": additive}
        case Choice(values=values):
            return {"values": list(values)}
    return {}


def _write_solution(place: Path, problem: Problem, file: Path, *, author: str) -> None:
    from cuassay.formats import load_candidate
    from cuassay.model.candidate import Convention

    candidate = load_candidate(str(file), problem)
    solution = {
        "name": f"{place.name}_{author}",
        "definition": place.parent.parent.name,
        "author": author,
        "spec": {
            "languages": ["triton" if "triton" in file.read_text() else "pytorch"],
            "target_hardware": ["LOCAL"],
            "entry_point": f"{candidate.entry_file}::{candidate.entry_function}",
            "destination_passing_style": candidate.convention is Convention.DESTINATION,
        },
        "sources": [{"path": s.path, "content": s.text} for s in candidate.sources],
    }
    place.mkdir(parents=True)
    (place / "solution.json").write_text(json.dumps(solution, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    found = write_tree(Path(sys.argv[1]), int(sys.argv[2]))
    print(f"{2 * len(found)} candidates in {sys.argv[1]}")

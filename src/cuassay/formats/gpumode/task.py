"""GPU MODE tasks: task.yml, reference.py with `ref_kernel` and `generate_input`, submissions.

The nested `data` that a submission takes is learnt by making it once; whole-number arguments of
the tests become axes where shapes follow them, the tests and benchmarks become workloads.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats import adapted, shapes
from cuassay.formats.gpumode import adapter
from cuassay.formats.gpumode.task_file import TaskFile, read_task, tolerance
from cuassay.formats.kernelbench.unset import filled_memory, holds_nothing
from cuassay.formats.modules import describe_failure, import_file
from cuassay.formats.sol.reference_file import reference_path
from cuassay.formats.textfile import read_text
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.digest import problem_digest
from cuassay.model.domain import Choice, Domain, Opaque, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    CustomSource,
    ExprAxis,
    InputSpec,
    Problem,
    Reference,
    ScalarSpec,
    TensorSpec,
    VarAxis,
    Workload,
)

ORIGIN = "gpumode"
_FUNCTION, _GENERATOR = "_cuassay_run", "_cuassay_generate"
_DRAWN = Opaque(why="only generate_input tells legal values")
_REAL_ELEMENTS = 1 << 18  # of inputs of a run that shapes alone cannot replace
_SMALL = 32  # up to which sizes are divided by two for such a run
Form = tuple[str, Any]  # how `data` is put together: a literal that the adapter writes


def load_task(folder: Path) -> Problem:
    """Return the problem of a task's folder; its reference is run on no data.

    Raises ProblemError, and ReferenceError_ where its code raises.
    """
    task = read_task(folder)
    given = [*task.tests, *task.benchmarks]
    if not given:
        raise ProblemError(f"{task.folder}: task.yml has neither tests nor benchmarks; add one")
    probe, learnt = _learnt(task, given[0])
    form = _with_fresh(probe.form, probe.unwritten())
    kept = [t for t in given if _same_but(t, given[0], learnt)]
    # The dtype in which an answer in float64 counts, None where it counts as it is. The
    # evaluator compares numbers and no dtypes: a reference that is computed in float64 from
    # narrower inputs is there to be exact, and submissions return the inputs' dtype.
    of_inputs = {shapes.dtype_of(value) for value in probe.leaves if hasattr(value, "shape")}
    of_outputs = {shapes.dtype_of(value) for value in probe.outputs if hasattr(value, "shape")}
    real = [dtype for dtype in of_inputs if dtype.is_floating]
    if DType.FLOAT64 not in of_outputs or DType.FLOAT64 in real or not real:
        narrow = None
    else:
        narrow = max(real, key=lambda dtype: (dtype.float_format.precision, dtype.value))
    inputs, outputs = _specs(probe, learnt, narrow=narrow)
    source = adapter.reference_source(
        task.reference,
        task.files,
        data=form,
        names=[spec.name for spec in inputs],
        axes={name: name for name in learnt.axes} | dict(learnt.same),
        fixed={n: v for n, v in given[0].items() if n not in (*learnt.axes, *learnt.same, "seed")},
        seeded="seed" in given[0],
        narrow=narrow.value if narrow else "",
    )
    rule = tolerance(task.reference)
    found: dict[tuple[tuple[str, int], ...], Workload] = {}
    for test in kept:
        sizes = {name: int(test[name]) for name in learnt.axes} | dict(learnt.derived)
        key = tuple(sizes.items())
        found.setdefault(
            key,
            Workload(
                id=" ".join(f"{name}={size}" for name, size in sizes.items()) or "test",
                axes=sizes,
                sources={spec.name: CustomSource() for spec in inputs},
                tolerance=rule,
            ),
        )
    problem = Problem(
        name=task.name,
        axes=(
            *(VarAxis(name=name) for name in learnt.axes),
            *(VarAxis(name=name, derived=True) for name in learnt.derived),
            *(ExprAxis(name=n, expression=text) for n, text in learnt.expressions.items()),
        ),
        inputs=inputs,
        outputs=outputs,
        reference=Reference(
            path=reference_path(source, None),
            function=_FUNCTION,
            source=source,
            generator=_GENERATOR,
        ),
        workloads=tuple(found.values()),
        origin=ORIGIN,
        path=folder.absolute(),
        description=task.description,
    )
    return dataclasses.replace(problem, digest=problem_digest(problem))


def _learnt(task: TaskFile, first: Mapping[str, Any]) -> tuple[_Probe, shapes.LearntShapes]:
    """Return what the shapes follow, learnt at the sizes of the first test.

    Where a task needs data and its own sizes make that dear, at smaller ones: those sizes that
    turn out to be no axes keep their value.
    """
    own = {
        name: v
        for name, v in first.items()
        if (name != "seed" and type(v) is int and v > 0 and name.isidentifier())
    }
    probe = _Probe(task, first)
    try:
        return probe, shapes.learn(probe, own)
    except _TooLargeError as error:
        failure = error
    kept: set[str] = set()
    while True:
        sizes = {name: v if name in kept else _halved(v) for name, v in own.items()}
        probe = _Probe(task, first)
        try:
            learnt = shapes.learn(probe, sizes)
        except ProblemError:
            raise failure from None
        moved = {name for name, size in sizes.items() if size != own[name]}
        held = moved - {*learnt.axes, *learnt.same}
        if not held:
            return probe, learnt
        kept |= held


def _halved(size: int) -> int:
    while size > _SMALL and size % 2 == 0:
        size //= 2
    return size


def load_candidate(file: Path, text: str, problem: Problem) -> Candidate:
    """Return the candidate of a submission. Raises CandidateError."""
    adapted.require(
        "custom_kernel",
        text,
        file,
        expected="'def custom_kernel(data)', which returns what the task's ref_kernel returns",
    )
    task = read_task(problem.path or file.parent)
    module = adapted.module_name(file, otherwise="submission")
    helpers = [
        SourceFile(path=f"{name}.py", text=read_text(task.places[name], CandidateError))
        for name in task.files
        if name != module
    ]
    plain = file.stem == "submission"
    return adapted.adapted_candidate(
        file,
        text,
        name=f"{file.absolute().parent.name}/submission" if plain else file.stem,
        module=module,
        entry=adapter.candidate_source(
            module,
            data=_written(problem.reference.source, "_CUASSAY_DATA"),
            narrow=str(_written(problem.reference.source, "_CUASSAY_NARROW")),
        ),
        helpers=helpers,
    )


def _written(source: str, name: str) -> object:
    """Return a constant that the adapter wrote into a problem's reference."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                return ast.literal_eval(value)
    raise CandidateError("the problem was not read from a GPU MODE task; give its folder")


def _same_but(
    test: Mapping[str, Any], first: Mapping[str, Any], learnt: shapes.LearntShapes
) -> bool:
    """Whether a test differs from the first in axes and seed alone."""
    left = {*learnt.axes, *learnt.same, "seed"}
    if any(test[name] != test[axis] for name, axis in learnt.same.items()):
        return False
    fixed = [{k: v for k, v in given.items() if k not in left} for given in (test, first)]
    return bool(fixed[0] == fixed[1])


class _TooLargeError(ProblemError):
    """A task needs data, and at these sizes too much of it."""


class _Probe:
    """Runs the task's functions on tensors without data; a call is a sample of shapes."""

    def __init__(self, task: TaskFile, first: Mapping[str, Any]) -> None:
        self._task, self._first = task, first
        text = adapter.library_source(task.files) + task.reference
        self._path = reference_path(text, None)
        self._held = {name: sys.modules.get(name) for name in task.files}
        self._values = vars(import_file(self._path))
        for name in ("ref_kernel", "generate_input"):
            if name not in self._values:
                raise ProblemError(
                    f"{task.folder}: reference.py defines no '{name}', which GPU MODE's evaluator "
                    "calls; write the problem natively (@problem) instead"
                )
        self.form: Form | None = None
        self.leaves: list[Any] = []
        self.outputs: list[Any] = []
        self._seen: list[tuple[Mapping[str, int], list[Any]]] = []  # sizes, and the data's leaves
        for name, module in self._held.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module

    def __call__(self, sizes: Mapping[str, int]) -> shapes.ShapeSample:
        from cuassay.dispatch_modes import without_memory

        dear = False
        try:
            try:
                form, leaves, outputs = without_memory(lambda: self._made(sizes))
            except Exception:
                dear = not self._affordable(sizes)
                if dear:
                    raise
                form, leaves, outputs = self._made(sizes)  # what shapes alone cannot tell
        except Exception as failure:
            raise (_TooLargeError if dear else ProblemError)(
                f"{self._task.folder}: the reference cannot be run on shapes alone: "
                f"{describe_failure(failure, self._path)}; write the problem natively (@problem) "
                "instead"
            ) from failure
        if self.form is None:
            self.form, self.leaves, self.outputs = form, leaves, outputs
        if form == self.form:
            self._seen.append((dict(sizes), leaves))
        return shapes.ShapeSample(
            inputs=tuple(tuple(t.shape) for t in leaves if hasattr(t, "shape")),
            outputs=tuple(tuple(t.shape) for t in outputs if hasattr(t, "shape")),
        )

    def size_at(self, place: int, axes: Sequence[str]) -> str:
        """Return the axis whose size a number of the data has at all sizes seen, or ''."""
        for axis in axes:
            pairs = {(sizes[axis], leaves[place]) for sizes, leaves in self._seen}
            if len(pairs) > 1 and all(size == value for size, value in pairs):
                return axis
        return ""

    def _made(self, sizes: Mapping[str, int]) -> tuple[Form, list[Any], list[Any]]:
        data = self._values["generate_input"](**{**self._first, **sizes})
        leaves: list[Any] = []
        form = _taken_apart(data, leaves)
        outputs: list[Any] = []
        _taken_apart(self._values["ref_kernel"](data), outputs)
        return form, leaves, outputs

    def unwritten(self) -> frozenset[int]:
        """Return the leaves that generate_input leaves unwritten: memory for the answer.

        None of a task whose data is not affordable, or whose file does not speak of empty memory.
        """
        import torch

        if "empty" not in self._task.reference or not self._affordable({}):
            return frozenset()
        leaves: list[Any] = []
        try:
            with filled_memory():
                _taken_apart(self._values["generate_input"](**self._first), leaves)
        except Exception:  # it needs a GPU, say: then every leaf is an input
            return frozenset()
        return frozenset(
            number
            for number, value in enumerate(leaves)
            if isinstance(value, torch.Tensor) and value.numel() and holds_nothing(value)
        )

    def _affordable(self, sizes: Mapping[str, int]) -> bool:
        """Whether a real run costs little: its inputs are made without memory first.

        A generator that looks at numbers (`.item()`) cannot: its arguments say how large they are.
        """
        from cuassay.dispatch_modes import without_memory

        try:
            generate = self._values["generate_input"]
            data = without_memory(lambda: generate(**{**self._first, **sizes}))
        except Exception:
            return math.prod(sizes.values()) <= _REAL_ELEMENTS
        leaves: list[Any] = []
        _taken_apart(data, leaves)
        elements: int = sum(t.numel() for t in leaves if hasattr(t, "shape"))
        return elements <= _REAL_ELEMENTS


def _taken_apart(value: Any, leaves: list[Any]) -> Form:
    """Return the form of nested data and add its tensors and numbers to `leaves`."""
    match value:
        case tuple() | list():
            kind = "tuple" if isinstance(value, tuple) else "list"
            return kind, [_taken_apart(part, leaves) for part in value]
        case dict():
            return "dict", [(key, _taken_apart(part, leaves)) for key, part in value.items()]
        case None | str():
            return "held", value
        case _:
            leaves.append(value)
            return "leaf", len(leaves) - 1


def _with_fresh(form: Form | None, unwritten: frozenset[int]) -> Form | None:
    """Return a form whose unwritten leaves are new memory in every call."""
    match form:
        case "leaf", number if number in unwritten:
            return "fresh", number
        case "dict", items:
            return "dict", [(key, _with_fresh(part, unwritten)) for key, part in items]
        case ("tuple" | "list") as kind, parts:
            return kind, [_with_fresh(part, unwritten) for part in parts]
    return form


def _places(form: Form, place: str = "data") -> Iterator[str]:
    """Yield where in `data` each leaf lies, as Python reads it."""
    match form:
        case "leaf", _:
            yield place
        case "dict", items:
            for key, part in items:
                yield from _places(part, f"{place}[{key!r}]")
        case "tuple" | "list", parts:
            for number, part in enumerate(parts):
                yield from _places(part, f"{place}[{number}]")


def _specs(
    probe: _Probe, learnt: shapes.LearntShapes, *, narrow: DType | None
) -> tuple[tuple[InputSpec, ...], tuple[TensorSpec, ...]]:
    written = iter(learnt.shapes)
    inputs: list[InputSpec] = []
    assert probe.form is not None
    for number, (place, value) in enumerate(zip(_places(probe.form), probe.leaves, strict=True)):
        name = f"data{number}"
        if hasattr(value, "shape"):
            dtype = shapes.dtype_of(value)
            domain: Domain = Real() if dtype.is_floating else _DRAWN
            shape = next(written)
            inputs.append(
                TensorSpec(name=name, dtype=dtype, shape=shape, domain=domain, description=place)
            )
        else:
            axis = probe.size_at(number, learnt.axes) if type(value) is int else ""
            inputs.append(dataclasses.replace(_scalar(name, value, axis), description=place))
    dtypes = [shapes.dtype_of(value) for value in probe.outputs if hasattr(value, "shape")]
    outputs = tuple(
        TensorSpec(
            name=f"output{n or ''}",
            dtype=narrow if narrow and dtype is DType.FLOAT64 else dtype,
            shape=next(written),
            domain=Real(),
        )
        for n, dtype in enumerate(dtypes)
    )
    if not outputs:
        raise ProblemError("ref_kernel returns no tensor; write the problem natively instead")
    return tuple(inputs), outputs


def _scalar(name: str, value: Any, axis: str) -> ScalarSpec:
    if not isinstance(value, bool | int | float):
        raise ProblemError(
            f"data holds a {type(value).__name__}, expected tensors, numbers and texts; write the "
            "problem natively (@problem) instead"
        )
    dtype = {bool: DType.BOOL, int: DType.INT64, float: DType.FLOAT32}[type(value)]
    domain: Domain = SizeOf(axis=axis) if axis else Choice(values=(value,))
    return ScalarSpec(name=name, dtype=dtype, domain=domain, default=value)

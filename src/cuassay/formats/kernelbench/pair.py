"""KernelBench: a file with `Model`, `get_inputs`, `get_init_inputs`; candidates define `ModelNew`.

The model's state becomes inputs whose values only its constructor knows. Sizes that the file
names at its top level, and that only `get_inputs` uses, become axes: the benchmark itself runs
one shape.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError
from cuassay.formats import adapted, shapes, signature
from cuassay.formats.kernelbench import adapter
from cuassay.formats.modules import describe, import_file
from cuassay.formats.sol.reference_file import reference_path
from cuassay.formats.structure import SCALARS, Step, Written, outputs, tensors_in
from cuassay.model.candidate import Candidate
from cuassay.model.digest import problem_digest
from cuassay.model.domain import Choice, Domain, Opaque, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    STATE_SOURCE,
    Axis,
    CustomSource,
    ExprAxis,
    InputSpec,
    Problem,
    Reference,
    ScalarSpec,
    StateSource,
    TensorSpec,
    Tolerance,
    VarAxis,
    Workload,
)

ORIGIN = "kernelbench"
_GENERATOR = "_cuassay_generate"
_TOLERANCE = Tolerance(atol=1e-2, rtol=1e-2, required_matched_ratio=1.0, origin="KernelBench")
_STATE = Opaque(why="the model's constructor draws its state")
_DRAWN = Opaque(why="only get_inputs tells legal values")
_SOURCE = ScalarSpec(
    name=STATE_SOURCE,
    dtype=DType.INT64,
    domain=Choice(values=(StateSource.GIVEN.value,)),
    default=StateSource.GIVEN.value,
    description="where the model's state comes from",
)
Place = tuple[str, int | None]  # a name of the file's top level, and the position in it


def load(path: Path, text: str) -> Problem:
    """Return the problem of a KernelBench file; its code is run, on no data.

    Raises ProblemError where it is not one, and ReferenceError_ where its code raises.
    """
    module = import_file(path)
    init = _init_inputs(module, path)
    places = _places(text, vars(module), path)
    sizes = {name: _value(vars(module), place) for name, place in places.items()}
    probe = _Probe(vars(module), init, path, places=places)
    learnt = shapes.learn(probe, sizes)
    specs, outputs = _specs(probe, learnt)
    state = {name: f"state_{re.sub(r'[^0-9a-zA-Z_]', '_', name)}" for name in probe.state}
    inputs = (*specs, *_state_specs(probe, state))
    source_spec = (_SOURCE,) if state else ()
    source = adapter.reference_source(
        text,
        init=init,
        arguments=[spec.name for spec in specs],
        state=state,
        buffers=probe.buffers,
        axes={name: places[name] for name in (*learnt.axes, *learnt.same)},
        same=learnt.same,
        call=probe.call,
    )
    problem = Problem(
        name=path.stem,
        axes=_axes(learnt),
        inputs=(*inputs, *source_spec),
        outputs=outputs,
        reference=Reference(path=reference_path(source, None), source=source, generator=_GENERATOR),
        workloads=(
            Workload(
                id=path.stem,
                axes={name: sizes[name] for name in learnt.axes} | dict(learnt.derived),
                sources={spec.name: CustomSource() for spec in inputs},
                tolerance=_TOLERANCE,
            ),
        ),
        origin=ORIGIN,
        path=path.absolute(),
        description=inspect.cleandoc(module.Model.__doc__ or ""),
        state=tuple(state.values()),
        held=probe.held,
    )
    return _with_digest(problem)


def load_candidate(file: Path, text: str, problem: Problem) -> Candidate:
    """Return the candidate of a file that defines ModelNew. Raises CandidateError."""
    adapted.require(
        "ModelNew",
        text,
        file,
        expected="a class of that name with the constructor and forward of the problem's Model",
    )
    module = adapted.module_name(file, otherwise="kernelbench_kernel")
    facts = _facts(problem.reference.source)
    entry = adapter.candidate_source(
        module,
        init=facts["_CUASSAY_INIT"],
        state=facts["_CUASSAY_STATE"],
        count=facts["_CUASSAY_COUNT"],
        call=facts["_CUASSAY_CALL"],
    )
    return adapted.candidate(file, text, name=file.stem, module=module, entry=entry)


def _facts(source: str) -> dict[str, Any]:
    """Return the literals that the adapter wrote into a problem's reference."""
    facts = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.startswith("_CUASSAY_"):
                facts[name] = ast.literal_eval(node.value)
    return facts


def _init_inputs(module: object, path: Path) -> list[object]:
    made: object = getattr(module, "get_init_inputs", list)()
    values = list(made) if isinstance(made, list | tuple) else [made]
    try:
        same = ast.literal_eval(repr(values)) == values
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise ProblemError(
            f"{path}: get_init_inputs() returns {values!r:.200}, expected numbers, texts, lists "
            "and dicts: they are written into the candidate's entry file"
        )
    return values


def _value(values: Mapping[str, Any], place: Place) -> int:
    name, position = place
    return int(values[name] if position is None else values[name][position])


def _places(text: str, values: Mapping[str, Any], path: Path) -> dict[str, Place]:
    """Return where the whole numbers of the top level stand that get_inputs alone uses.

    Those of a tuple or list `shape` are called `shape_0`, `shape_1`, ...
    """
    tree = signature.parse(text, str(path))
    used = {
        node.name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    elsewhere = set().union(*(names for name, names in used.items() if name != "get_inputs"))
    mine = used.get("get_inputs", set()) - elsewhere
    found: dict[str, Place] = {}
    for name in sorted(mine):
        value = values.get(name)
        if type(value) is int and value > 1:
            found[name] = (name, None)
        elif isinstance(value, tuple | list):
            for position, item in enumerate(value):
                if type(item) is int and item > 1:
                    found[f"{name}_{position}"] = (name, position)
    return found


class _Probe:
    """Runs the file's functions on tensors without data; a call is a sample of shapes."""

    def __init__(
        self,
        values: dict[str, Any],
        init: Sequence[object],
        path: Path,
        *,
        places: Mapping[str, Place],
    ) -> None:
        self._values, self._init, self._path, self._places = values, init, path, places
        self.state: dict[str, tuple[tuple[int, ...], DType]] = {}
        self.buffers: tuple[str, ...] = ()
        self.leaves: dict[str, Any] = {}
        self.outputs: list[Any] = []
        self.held: tuple[str, ...] = ()
        self.call = ""

    def __call__(self, sizes: Mapping[str, int]) -> shapes.Sample:
        from cuassay.dispatch_modes import without_memory

        held = {name: self._values[name] for name, _ in self._places.values()}
        for axis, size in sizes.items():
            name, position = self._places[axis]
            if position is None:
                self._values[name] = size
            else:
                kind = type(held[name])
                items = list(self._values[name])
                items[position] = size
                self._values[name] = kind(items)
        try:
            leaves, made = without_memory(self._forward)
        except Exception as failure:
            raise ProblemError(
                f"{self._path}: Model cannot be run on shapes alone: "
                f"{describe(failure, self._path)}; write the problem natively (@problem) instead"
            ) from failure
        finally:
            self._values.update(held)
        return shapes.Sample(
            inputs=tuple(tuple(t.shape) for t in leaves.values() if hasattr(t, "shape")),
            outputs=tuple(tuple(t.shape) for t in made),
        )

    def _forward(self) -> tuple[dict[str, Any], list[Any]]:
        """Return the tensors and numbers of a call by name, and the tensors that it returns."""
        import torch

        with torch.no_grad():
            model = self._values["Model"](*self._init)
            kept = model.state_dict()
            self.buffers = tuple(name for name, _ in model.named_buffers() if name in kept)
            self.state = {name: (tuple(v.shape), shapes.dtype_of(v)) for name, v in kept.items()}
            given = self._values["get_inputs"]()
            by_name = isinstance(given, Mapping)
            made = model(**given) if by_name else model(*given)
        found = list(outputs(made))
        bad = next((v for _, _, v in found if not isinstance(v, torch.Tensor)), None)
        if bad is not None or not found:
            raise TypeError(f"forward returns a {type(bad).__name__}, expected tensors")
        names = list(given) if by_name else self._names(len(given))
        written, texts = _written(names, names, given)
        if self._taken(written.leaves):
            written, texts = _written(names, [f"x{n}" for n in range(len(given))], given)
        results = [value for _, _, value in found]
        if not self.call:
            self.leaves, self.outputs, self.held = written.leaves, results, tuple(written.held)
            self.call = adapter.call_text(
                texts,
                _steps(
                    written, dict(zip(names, given.values() if by_name else given, strict=True))
                ),
                [steps for _, steps, _ in found],
                by_name=by_name,
            )
        return written.leaves, results

    def _names(self, count: int) -> list[str]:
        """Return the forward's parameter names, or x0, x1... where they do not fit."""
        parameters = list(inspect.signature(self._values["Model"].forward).parameters)[1:]
        fits = len(parameters) >= count and len(set(parameters)) == len(parameters)
        return parameters[:count] if fits else [f"x{number}" for number in range(count)]

    def _taken(self, names: Iterable[str]) -> bool:
        """Whether one of these names of inputs is in use."""
        return any(name.startswith("state_") or name in self._values for name in names)


def _written(
    names: Sequence[str], called: Sequence[str], given: Any
) -> tuple[Written, dict[str, str]]:
    """Return the flat inputs of a call, and the expression of each argument over them.

    `called` is what the flat inputs of each argument are called.
    """
    written = Written()
    values = given.values() if isinstance(given, Mapping) else given
    texts = {
        name: written.argument(own, value)
        for name, own, value in zip(names, called, values, strict=True)
    }
    if written.classes:
        kinds = ", ".join(kind.__name__ for kind in written.classes.values())
        raise TypeError(
            f"get_inputs() returns objects of {kinds}, expected tensors, numbers, texts, None, "
            "lists, tuples and dicts"
        )
    return written, texts


def _steps(written: Written, arguments: Mapping[str, Any]) -> dict[str, tuple[Step, ...]]:
    """Return where in the arguments each flat input lies."""
    tensors = list(tensors_in(arguments))
    numbers = [(name, value) for name, value in arguments.items() if type(value) in SCALARS]
    found: dict[str, tuple[Step, ...]] = {}
    for name, value in written.leaves.items():
        if type(value) in SCALARS:
            found[name] = (Step(kind="[", name=numbers.pop(0)[0]),)
        else:
            found[name] = next(steps for steps, one in tensors if one is value)
    return found


def _specs(
    probe: _Probe, learnt: shapes.Learnt
) -> tuple[tuple[InputSpec, ...], tuple[TensorSpec, ...]]:
    written = iter(learnt.shapes)
    inputs: list[InputSpec] = []
    for name, value in probe.leaves.items():
        if hasattr(value, "shape"):
            dtype = shapes.dtype_of(value)
            domain: Domain = Real() if dtype.is_floating else _DRAWN
            inputs.append(TensorSpec(name=name, dtype=dtype, shape=next(written), domain=domain))
        else:
            inputs.append(_scalar(name, value))
    returned = tuple(
        TensorSpec(
            name=f"output{n or ''}", dtype=shapes.dtype_of(v), shape=next(written), domain=Real()
        )
        for n, v in enumerate(probe.outputs)
    )
    return tuple(inputs), returned


def _scalar(name: str, value: Any) -> ScalarSpec:
    if not isinstance(value, bool | int | float):
        raise ProblemError(
            f"input '{name}' is a {type(value).__name__}, expected a tensor or a number; write "
            "the problem natively (@problem) instead"
        )
    dtype = {bool: DType.BOOL, int: DType.INT64, float: DType.FLOAT32}[type(value)]
    return ScalarSpec(name=name, dtype=dtype, domain=Choice(values=(value,)), default=value)


def _state_specs(probe: _Probe, names: Mapping[str, str]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=names[name],
            dtype=dtype,
            shape=tuple(str(size) for size in shape),
            domain=_STATE,
            domain_source="inferred",
            description=f"{name} of the model",
        )
        for name, (shape, dtype) in probe.state.items()
    )


def _axes(learnt: shapes.Learnt) -> tuple[Axis, ...]:
    free = (
        *(VarAxis(name=name) for name in learnt.axes),
        *(VarAxis(name=name, derived=True) for name in learnt.derived),
    )
    return (*free, *(ExprAxis(name=n, expression=text) for n, text in learnt.expressions.items()))


def _with_digest(problem: Problem) -> Problem:
    from dataclasses import replace

    return replace(problem, digest=problem_digest(problem))

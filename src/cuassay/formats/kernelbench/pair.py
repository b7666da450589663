"""KernelBench: a file with `Model`, `get_inputs`, `get_init_inputs`; candidates define `ModelNew`.

The model's state becomes inputs whose values only its constructor knows. Sizes that the file
names at its top level, and that only `get_inputs` uses, become axes: the benchmark itself runs
one shape. Where the state or the work of a call is large, so do literal sizes in `get_inputs`, and
the sizes that `get_init_inputs` hands to the constructor: a call tells the size that the module is
to be built with, and both models are built anew for it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError
from cuassay.formats import adapted, shapes, signature
from cuassay.formats.kernelbench import adapter
from cuassay.formats.kernelbench.unset import unset_state
from cuassay.formats.modules import describe_failure, import_file
from cuassay.formats.sol.reference_file import reference_path
from cuassay.formats.structure import SCALARS, PathStep, Written, outputs, tensors_in
from cuassay.model.candidate import Candidate
from cuassay.model.digest import problem_digest
from cuassay.model.domain import Choice, Domain, Opaque, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    STATE_SOURCE,
    Axis,
    CustomSource,
    ExprAxis,
    InputSpec,
    Problem,
    Reference,
    ScalarSource,
    ScalarSpec,
    StateSource,
    TensorSpec,
    Tolerance,
    VarAxis,
    Workload,
)

ORIGIN = "kernelbench"
_FUNCTION, _GENERATOR = "_cuassay_run", "_cuassay_generate"
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
Positions = tuple[int, ...]  # positions in nested lists and tuples, outermost first
# Up to here a module of its own sizes costs a trial next to nothing: truth runs it some ten times.
_LARGE_BYTES = 1 << 26
_BUILT_BYTES = 1 << 28  # of state, inputs and outputs
_MANY_MULTIPLY_ADDS = 1 << 26
_SMALL_SIZES = (2, 4, 8, 16, 32)  # that axes have in small cases


def load_kernelbench_problem(path: Path, text: str) -> Problem:
    """Return the problem of a KernelBench file; its code is run, on no data.

    Raises ProblemError where it is not one, and ReferenceError_ where its code raises.
    """
    module = import_file(path)
    values = vars(module)
    init = _init_inputs(values, path)
    places = _places(text, values, path)
    probe = _Probe(values, path, places=places)
    learnt = shapes.learn(probe, _sizes(values, places))
    built: dict[str, tuple[Place, tuple[Positions, ...]]] = {}
    if _is_large(probe, learnt):
        text = _with_named_sizes(text, values, path)
        built = _built_places(text, values, path, init)
        more = _places(text, values, path) | {name: place for name, (place, _) in built.items()}
        if more != places:
            places = more
            probe = _Probe(values, path, places=places)
            learnt = shapes.learn(probe, _sizes(values, places))
    sizes = _sizes(values, places)
    # The axes that the constructor is told, with their places in its arguments.
    told: dict[str, tuple[Positions, ...]] = {}
    for name in (*learnt.axes, *learnt.same):
        if name in built:
            axis = learnt.same.get(name, name)
            told[axis] = (*told.get(axis, ()), *built[name][1])
    specs, outputs = _specs(probe, learnt)
    state = {name: f"state_{re.sub(r'[^0-9a-zA-Z_]', '_', name)}" for name in probe.state}
    inputs = (*specs, *_state_specs(probe, learnt, state))
    size_specs = tuple(
        ScalarSpec(
            name=f"{adapter.BUILT}{axis}",
            dtype=DType.INT64,
            domain=SizeOf(axis=axis),
            default=sizes[axis],
            description=f"the {axis} that the module is built with",
        )
        for axis in told
    )
    # Seen of a module that is built with data, where that takes little memory.
    small = bool(state) and probe.held_bytes <= _BUILT_BYTES
    unset = unset_state(partial(values["Model"], *init), text) if small else ()
    source_spec = (_SOURCE,) if state else ()
    source = adapter.reference_source(
        text,
        init=init,
        arguments=[spec.name for spec in specs],
        state=state,
        buffers=probe.buffers,
        unset=unset,
        axes={name: places[name] for name in (*learnt.axes, *learnt.same)},
        same=learnt.same,
        built=told,
        call=probe.call,
    )
    problem = Problem(
        name=path.stem,
        axes=_axes(learnt, told),
        inputs=(*inputs, *size_specs, *source_spec),
        outputs=outputs,
        reference=Reference(
            path=reference_path(source, None),
            function=_FUNCTION,
            source=source,
            generator=_GENERATOR,
        ),
        workloads=(
            Workload(
                id=path.stem,
                axes={name: sizes[name] for name in learnt.axes} | dict(learnt.derived),
                sources={spec.name: CustomSource() for spec in inputs}
                | {
                    spec.name: ScalarSource(value=sizes[axis])
                    for axis, spec in zip(told, size_specs, strict=True)
                },
                tolerance=_TOLERANCE,
            ),
        ),
        origin=ORIGIN,
        path=path.absolute(),
        description=inspect.cleandoc(module.Model.__doc__ or ""),
        state=tuple(state.values()),
        built=tuple(told),
        modes=probe.modes,
        placeholders=tuple(state[name] for name in unset if name in state),
        held=probe.held,
    )
    return dataclasses.replace(problem, digest=problem_digest(problem))


def load_candidate(file: Path, text: str, problem: Problem) -> Candidate:
    """Return the candidate of a file that defines ModelNew. Raises CandidateError."""
    adapted.require(
        "ModelNew",
        text,
        file,
        expected="a class of that name with the constructor and forward of the problem's Model",
    )
    module = adapted.module_name(file, otherwise="kernelbench_kernel")
    # The literals that the adapter wrote into the problem's reference.
    facts = {}
    for node in ast.parse(problem.reference.source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.startswith("_CUASSAY_"):
                facts[name] = ast.literal_eval(node.value)
    entry = adapter.candidate_source(
        module,
        init=facts["_CUASSAY_INIT"],
        state=facts["_CUASSAY_STATE"],
        built=facts["_CUASSAY_BUILT"],
        count=facts["_CUASSAY_COUNT"],
        call=facts["_CUASSAY_CALL"],
    )
    return adapted.adapted_candidate(file, text, name=file.stem, module=module, entry=entry)


def _is_large(probe: _Probe, learnt: shapes.Learnt) -> bool:
    """Whether a call is large or takes long however small its axes are.

    As small as the model takes them: one that pools twice refuses the smallest.
    """
    for size in _SMALL_SIZES:
        try:
            probe(learnt.sizes(dict.fromkeys(learnt.axes, size)))
        except ProblemError:
            continue
        return probe.held_bytes > _LARGE_BYTES or probe.multiply_adds > _MANY_MULTIPLY_ADDS
    return False


def _with_named_sizes(text: str, values: dict[str, Any], path: Path) -> str:
    """Return the file with names for the whole numbers that get_inputs holds as literals.

    `get_inputs` of `values` then reads them too.
    """
    tree = signature.syntax_tree(text, str(path))
    made = next(
        (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "get_inputs"), None
    )
    literals = [
        node
        for node in ast.walk(made or tree)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1
    ]
    if made is None or not literals:
        return text
    literals.sort(key=lambda node: (node.lineno, node.col_offset))
    names = (name for n in itertools.count() if (name := f"size{n}") not in values)
    named = dict(zip(names, literals, strict=False))
    lines = [line.encode() for line in text.split("\n")]  # columns count bytes
    for name, node in reversed(named.items()):
        line, end = lines[node.lineno - 1], node.end_col_offset
        lines[node.lineno - 1] = line[: node.col_offset] + name.encode() + line[end:]
    sizes = "; ".join(f"{name} = {node.value!r}" for name, node in named.items())
    lines.insert(made.lineno - 1, sizes.encode())
    changed = "\n".join(line.decode() for line in lines)
    wanted = {"get_inputs", *named}
    body = [n for n in ast.parse(changed).body if wanted & set(_bound(n))]
    exec(
        compile(ast.Module(body=body, type_ignores=[]), str(path), "exec"), values
    )  # code of the file itself
    return changed


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of the top level binds."""
    if isinstance(node, ast.FunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _init_inputs(module: Mapping[str, Any], path: Path) -> list[object]:
    made: object = module.get("get_init_inputs", list)()
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


def _sizes(values: Mapping[str, Any], places: Mapping[str, Place]) -> dict[str, int]:
    return {
        axis: int(values[name] if position is None else values[name][position])
        for axis, (name, position) in places.items()
    }


@contextmanager
def _moved(
    values: dict[str, Any], places: Mapping[str, Place], sizes: Mapping[str, int]
) -> Iterator[None]:
    """Give the file's top level other sizes, while this is entered."""
    held = {name: values[name] for name, _ in places.values()}
    for axis, size in sizes.items():
        name, position = places[axis]
        if position is None:
            values[name] = size
        else:
            items = list(values[name])
            items[position] = size
            values[name] = type(held[name])(items)
    try:
        yield
    finally:
        values.update(held)


def _places(text: str, values: Mapping[str, Any], path: Path) -> dict[str, Place]:
    """Return where the whole numbers of the top level stand that get_inputs alone uses.

    Those of a tuple or list `shape` are called `shape_0`, `shape_1`, ...
    """
    used = _used(text, path)
    elsewhere = set().union(*(names for name, names in used.items() if name != "get_inputs"))
    return _numbers(used.get("get_inputs", set()) - elsewhere, values)


def _built_places(
    text: str, values: dict[str, Any], path: Path, init: Sequence[object]
) -> dict[str, tuple[Place, tuple[Positions, ...]]]:
    """Return where the whole numbers stand that the constructor is given as they are.

    Each with the places in what get_init_inputs returns. A number that the file's own classes
    or other functions use beside, or from which another argument is computed, is none of these.
    """
    used = _used(text, path)
    ours = ("get_inputs", "get_init_inputs")
    elsewhere = set().union(*(names for name, names in used.items() if name not in ours))
    numbers = _numbers(used.get("get_init_inputs", set()) - elsewhere, values)
    before = dict(_leaves(init))
    found: dict[str, tuple[Place, tuple[Positions, ...]]] = {}
    for axis, size in _sizes(values, numbers).items():
        with _moved(values, numbers, {axis: 2 * size}):
            after = dict(_leaves(_init_inputs(values, path)))
        changed = [where for where, value in after.items() if before.get(where) != value]
        plain = all(before.get(where) == size and after[where] == 2 * size for where in changed)
        if changed and plain and after.keys() == before.keys():
            found[axis] = (numbers[axis], tuple(changed))
    return found


def _leaves(value: object, where: Positions = ()) -> Iterator[tuple[Positions, object]]:
    """Yield what lists and tuples hold, with the positions that lead there."""
    if isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _leaves(item, (*where, position))
    else:
        yield where, value


def _used(text: str, path: Path) -> dict[str, set[str]]:
    """Return the names of the top level that each function and class there uses."""
    signature.syntax_tree(text, str(path))  # says what is wrong with it
    top = symtable.symtable(text, str(path), "exec")
    return {table.get_name(): set(_globals(table)) for table in top.get_children()}


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names of the top level that a scope and those inside it use."""
    for symbol in table.get_symbols():
        if symbol.is_global():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


def _numbers(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, Place]:
    """Return where whole numbers above 1 stand: by name, then inside tuples and lists."""
    found: dict[str, Place] = {}
    for name in sorted(names, key=lambda name: (isinstance(values.get(name), tuple | list), name)):
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
        path: Path,
        *,
        places: Mapping[str, Place],
    ) -> None:
        from cuassay.dispatch_modes import WithoutMemory

        self._values, self._path, self._places = values, path, places
        self._without_memory = WithoutMemory()
        self.state: dict[str, DType] = {}
        self.held_bytes = 0  # of the last call's state, inputs and results
        self.multiply_adds = 0  # of the last call
        self.buffers: tuple[str, ...] = ()
        self.leaves: dict[str, Any] = {}
        self.outputs: list[Any] = []
        self.held: tuple[str, ...] = ()
        self.modes = False
        self.call = ""

    def __call__(self, sizes: Mapping[str, int]) -> shapes.ShapeSample:
        from cuassay.dispatch_modes import MultiplyAdds

        def forward() -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
            with MultiplyAdds() as counted:
                found = self._forward()
            self.multiply_adds = counted.count
            return found

        try:
            with _moved(self._values, self._places, sizes):
                leaves, state, made = self._without_memory(forward)
        except Exception as failure:
            raise ProblemError(
                f"{self._path}: Model cannot be run on shapes alone: "
                f"{describe_failure(failure, self._path)}; write the problem natively (@problem) "
                "instead"
            ) from failure
        if not self.state:
            self.state = {name: shapes.dtype_of(value) for name, value in state.items()}
        if {name: shapes.dtype_of(value) for name, value in state.items()} != self.state:
            raise ProblemError(f"{self._path}: the model has another state at {dict(sizes)}")
        tensors = [t for t in leaves.values() if hasattr(t, "shape")]
        self.held_bytes = sum(value.nbytes for value in (*tensors, *state.values(), *made))
        return shapes.ShapeSample(
            inputs=tuple(tuple(t.shape) for t in (*tensors, *state.values())),
            outputs=tuple(tuple(t.shape) for t in made),
        )

    def _forward(self) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
        """Return a call's tensors and numbers by name, the model's state, and the results."""
        import torch

        with torch.no_grad():
            model = self._values["Model"](*_init_inputs(self._values, self._path))
            kept = model.state_dict()
            self.modes = any(_asks_for_mode(one) for one in model.modules())
            self.buffers = tuple(name for name, _ in model.named_buffers() if name in kept)
            given = self._values["get_inputs"]()
            by_name = isinstance(given, Mapping)
            made = model(**given) if by_name else model(*given)
        found = list(outputs(made))
        bad = next((v for _, _, v in found if not isinstance(v, torch.Tensor)), None)
        if bad is not None or not found:
            raise TypeError(f"forward returns a {type(bad).__name__}, expected tensors")
        if by_name:
            names = list(given)
        else:
            # The forward's parameter names, or x0, x1... where they do not fit.
            count = len(given)
            parameters = list(inspect.signature(self._values["Model"].forward).parameters)[1:]
            fits = len(parameters) >= count and len(set(parameters)) == len(parameters)
            names = parameters[:count] if fits else [f"x{number}" for number in range(count)]
        written, texts = _written(names, names, given)
        ours = ("state_", adapter.BUILT)
        if any(name.startswith(ours) or name in self._values for name in written.leaves):
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
        return written.leaves, kept, results


def _asks_for_mode(module: Any) -> bool:
    """Whether a module's own code reads `training`: batch norm, dropout and their like do."""
    code = getattr(type(module).forward, "__code__", None)
    return code is not None and "training" in code.co_names


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


def _steps(written: Written, arguments: Mapping[str, Any]) -> dict[str, tuple[PathStep, ...]]:
    """Return where in the arguments each flat input lies."""
    tensors = list(tensors_in(arguments))
    numbers = [(name, value) for name, value in arguments.items() if type(value) in SCALARS]
    found: dict[str, tuple[PathStep, ...]] = {}
    for name, value in written.leaves.items():
        if type(value) in SCALARS:
            found[name] = (PathStep(kind="[", name=numbers.pop(0)[0]),)
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
    results = learnt.shapes[-len(probe.outputs) :]
    returned = tuple(
        TensorSpec(name=f"output{n or ''}", dtype=shapes.dtype_of(v), shape=shape, domain=Real())
        for n, (v, shape) in enumerate(zip(probe.outputs, results, strict=True))
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


def _state_specs(
    probe: _Probe, learnt: shapes.Learnt, names: Mapping[str, str]
) -> tuple[TensorSpec, ...]:
    before = sum(1 for value in probe.leaves.values() if hasattr(value, "shape"))
    shape_of = dict(zip(probe.state, learnt.shapes[before:], strict=False))
    return tuple(
        TensorSpec(
            name=names[name],
            dtype=dtype,
            shape=shape_of[name],
            domain=_STATE,
            domain_source="inferred",
            description=f"{name} of the model",
        )
        for name, dtype in probe.state.items()
    )


def _axes(learnt: shapes.Learnt, built: Iterable[str]) -> tuple[Axis, ...]:
    told = "the module is built with it"
    free = (
        *(VarAxis(name=n, description=told if n in built else "") for n in learnt.axes),
        *(VarAxis(name=name, derived=True) for name in learnt.derived),
    )
    return (*free, *(ExprAxis(name=n, expression=text) for n, text in learnt.expressions.items()))

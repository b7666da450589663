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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuassay.errors import CandidateError, ProblemError, suggestion
from cuassay.formats import adapted, shapes, signature
from cuassay.formats.kernelbench import adapter
from cuassay.formats.kernelbench.unset import unset_state
from cuassay.formats.modules import describe_failure, import_file
from cuassay.formats.sol.reference_file import reference_path
from cuassay.formats.structure import SCALARS, PathStep, Written, outputs, tensors_in
from cuassay.formats.traced import Traced, traced_limits, untraced
from cuassay.model.axes import SHARES, resolve, shape_of
from cuassay.model.candidate import Candidate
from cuassay.model.digest import problem_digest
from cuassay.model.domain import Choice, Domain, Opaque, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import (
    LISTED,
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
_CLASSES = ("ModelNew", "Model")  # of a candidate: the first one that its file defines
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
_SMALL_SIZES = (2, 4, 8, 16, 32, 64, 128)  # that axes have in small cases
_REDUCED_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512)  # tried in place of a loop's own
_FEW_OPERATIONS = 1 << 9  # of a call without data: a tenth of a second
_MOST_OPERATIONS = 1 << 12  # of one that is asked for once


def load_kernelbench_problem(
    path: Path,
    text: str,
    *,
    name: str = "",
    listed: Mapping[str, Mapping[str, int | float]] | None = None,
    tolerance: Callable[[DType], Tolerance] = lambda _: _TOLERANCE,
    precision: Precision | None = None,
    loads_state: bool = False,
    notes: list[str] | None = None,
) -> Problem:
    """Return the problem of a KernelBench file; its code is run, on no data.

    `listed` are the numbers of its workloads, over those of the file's top level; without any the
    file's own are the only workload. Whole numbers are sizes; another one, or one that no shape
    follows, is told to the constructor as each workload lists it. `tolerance` returns that of an
    output's dtype, `precision` is the policy, where one is declared. With `loads_state` the
    benchmark loads the reference's state into a candidate: what its constructor draws is a
    placeholder.
    Raises ProblemError where it is not one, and ReferenceError_ where its code raises.
    """
    module = import_file(path)
    values = vars(module)
    init = _init_inputs(values, path)
    reads = _Reads.of(text, path)
    built = _built_places(reads, values, path)
    places = _places(reads, values) | {one: place for one, (place, _) in built.items()}
    numbers = _listed_numbers(listed or {}, values, places, path)
    named = {
        node.value
        for node in ast.walk(signature.syntax_tree(text, str(path)))
        if isinstance(node, ast.Constant) and type(node.value) is int
    }
    shaped = _learn(_Probe(values, path, places=places), _sizes(values, places), named)
    if shaped.is_large:
        text = _with_named_sizes(text, values, path)
        more = _places(_Reads.of(text, path), values) | places
        if more != places:
            places = more
            shaped = _learn(_Probe(values, path, places=places), _sizes(values, places), named)
    probe, learnt = shaped.probe, shaped.learnt
    sizes = _sizes(values, places)
    # The axes that the constructor is told, with their places in its arguments.
    told: dict[str, tuple[Positions, ...]] = {}
    for one in (*learnt.axes, *learnt.same):
        if one in built:
            axis = learnt.same.get(one, one)
            told[axis] = (*told.get(axis, ()), *built[one][1])
    specs, outputs = _specs(probe, learnt)
    state = {one: f"state_{re.sub(r'[^0-9a-zA-Z_]', '_', one)}" for one in probe.state}
    before = sum(1 for value in probe.leaves.values() if hasattr(value, "shape"))
    shape_of = dict(zip(probe.state, learnt.shapes[before:], strict=False))
    inputs = (
        *specs,
        *(
            TensorSpec(
                name=state[name],
                dtype=dtype,
                shape=shape_of[name],
                domain=_STATE,
                domain_source="inferred",
                description=f"{name} of the model",
            )
            for name, dtype in probe.state.items()
        ),
    )
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
    size_specs += tuple(
        ScalarSpec(
            name=f"{adapter.BUILT}{name}",
            dtype=DType.FLOAT32,
            domain=Choice(values=tuple(dict.fromkeys(own))),
            default=values[name],
            description=f"the {name} that the module is built with",
        )
        for name, (_, own) in numbers.items()
    )

    def small_module() -> Any:
        with _moved(values, places, shaped.small):
            return values["Model"](*_init_inputs(values, path))

    # Seen of a module that is built with data, where that takes little memory.
    unset = unset_state(small_module, text) if state and shaped.is_buildable else ()
    source_spec = (_SOURCE,) if state else ()
    source = adapter.reference_source(
        text,
        init=init,
        arguments=[spec.name for spec in specs],
        state=state,
        buffers=probe.buffers,
        unset=unset,
        axes={one: places[one] for one in (*learnt.axes, *learnt.same)}
        | {name: (name, None) for name in numbers},
        same=learnt.same,
        built={**told, **{name: where for name, (where, _) in numbers.items()}},
        call=probe.call,
        is_followed=any(not spec.dtype.is_floating for spec in specs),
    )
    wanted = listed or {path.stem: {}}
    workloads = tuple(
        Workload(
            id=label,
            axes=axes,
            sources={spec.name: CustomSource() for spec in inputs}
            | {
                f"{adapter.BUILT}{name}": ScalarSource(value=value)
                for name, value in {
                    **{axis: axes[axis] for axis in told},
                    **{one: own.get(one, values[one]) for one in numbers},
                }.items()
            },
            tolerance=tolerance(
                next((spec.dtype for spec in outputs if spec.dtype.is_floating), outputs[0].dtype)
            ),
        )
        for label, own in wanted.items()
        if (
            axes := _listed_axes(
                shaped,
                {**sizes, **{k: int(v) for k, v in own.items() if k in sizes}},
                label,
                notes,
            )
        )
        is not None
    )
    if not workloads:
        raise ProblemError(
            f"{path}: the shapes of none of its {len(wanted)} workloads are what get_inputs() "
            "makes; correct the listed sizes"
        )
    problem = Problem(
        name=name or path.stem,
        axes=_axes(learnt, told, [workload.axes for workload in workloads]),
        inputs=(*inputs, *size_specs, *source_spec),
        outputs=outputs,
        reference=Reference(
            path=reference_path(source, None),
            function=_FUNCTION,
            source=source,
            generator=_GENERATOR,
        ),
        workloads=workloads,
        origin=ORIGIN,
        path=path.absolute(),
        description=inspect.cleandoc(module.Model.__doc__ or ""),
        state=tuple(state.values()),
        built=tuple(told),
        modes=probe.modes,
        precision=precision,
        placeholders=tuple(one for name, one in state.items() if loads_state or name in unset),
        held=probe.held,
    )
    return dataclasses.replace(problem, digest=problem_digest(problem))


def load_candidate(file: Path, text: str, problem: Problem) -> Candidate:
    """Return the candidate of a file that defines ModelNew, else Model. Raises CandidateError."""
    try:
        bound = signature.bound_names(signature.syntax_tree(text, str(file)))
    except SyntaxError:  # the build reports it, as the candidate's fault
        bound = frozenset({_CLASSES[0]})
    cls = next((name for name in _CLASSES if name in bound), "")
    if not cls:
        near = suggestion(_CLASSES[0], bound)
        raise CandidateError(
            f"{file} defines neither 'ModelNew' nor 'Model'{f' ({near})' if near else ''}: "
            "expected a class of one of these names with the constructor and forward of the "
            "problem's Model"
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
        buffers=facts["_CUASSAY_BUFFERS"],
        built=facts["_CUASSAY_BUILT"],
        count=facts["_CUASSAY_COUNT"],
        call=facts["_CUASSAY_CALL"],
        cls=cls,
    )
    return adapted.adapted_candidate(file, text, name=file.stem, module=module, entry=entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shaped:
    """What the shapes of a module follow, and the small sizes at which it was looked at.

    `is_large`: a call is large or takes long however small its axes are. `is_buildable`: the
    module may be built with data at the small sizes.
    """

    probe: _Probe
    learnt: shapes.LearntShapes
    small: Mapping[str, int]
    is_large: bool
    is_buildable: bool


def _learn(probe: _Probe, sizes: Mapping[str, int], numbers: Collection[int]) -> _Shaped:
    """Learn what the shapes follow: at the file's own sizes, or at smaller ones of a long loop.

    `numbers` are those that the file names.
    """
    bases = [sizes]
    if not probe.is_short(sizes):
        probe.note_state(sizes)
        bases = [*_reduced(probe, sizes), sizes]
    for base in bases:
        learnt = shapes.learn(probe, base, inputs=probe.inputs, numbers=numbers)
        if base is sizes or _makes(probe, learnt, sizes):  # small ones may not show a rule
            break
    small: Mapping[str, int] | None = None if base == sizes else base
    for size in _SMALL_SIZES if small is None else ():
        # As small as the model takes them: one that pools twice refuses the smallest.
        tried = {**sizes, **learnt.sizes(dict.fromkeys(learnt.axes, size))}
        if probe.takes(tried):
            small = tried
            break
    probe(small or sizes)
    held_bytes = probe.held_bytes
    probe.write_call(sizes)
    large = held_bytes > _LARGE_BYTES or probe.multiply_adds > _MANY_MULTIPLY_ADDS
    return _Shaped(
        probe=probe,
        learnt=learnt,
        small=small or sizes,
        is_large=large and small is not None,
        is_buildable=held_bytes <= _BUILT_BYTES,
    )


def _reduced(probe: _Probe, sizes: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """Yield sizes that a module takes as well, at which its loop is short.

    First all are divided by one number: what is a multiple of another stays one. Where none is
    accepted each is made as small as the others allow, the largest first: what is refused is
    refused by the first statements, as a rule, so that it costs little to ask.
    """
    accepted = False
    for factor in SHARES:
        tried = {name: min(size, max(size // factor, 2)) for name, size in sizes.items()}
        if probe.is_accepted(tried):
            accepted = True
            yield tried
    if accepted:
        return
    found = dict(sizes)
    for name in sorted(found, key=lambda name: (-found[name], name)):
        for size in _REDUCED_SIZES:
            if size >= found[name]:
                break
            tried = {**found, name: size}
            if probe.is_accepted(tried):
                found = tried
                break
    if found != sizes:
        yield found


def _makes(probe: _Probe, learnt: shapes.LearntShapes, sizes: Mapping[str, int]) -> bool:
    """Whether the inputs and the state at some sizes have the shapes that were learnt."""
    bound = {axis: sizes[axis] for axis in learnt.axes} | dict(learnt.derived)
    try:
        made = probe.inputs(sizes)
        known = resolve(_axes(learnt, ()), bound)
        return made == tuple(shape_of(one, known) for one in learnt.shapes[: len(made)])
    except ProblemError:
        return False


def _listed_axes(
    shaped: _Shaped, sizes: Mapping[str, int], label: str, notes: list[str] | None
) -> dict[str, int] | None:
    """Return the axes of a workload, None for one that the reference does not make so."""
    learnt, probe = shaped.learnt, shaped.probe
    if not _makes(probe, learnt, sizes):
        if notes is not None:
            notes.append(
                f"workload '{label}' is left out: its tensors have other shapes than the sizes "
                "that vary say"
            )
        return None
    axes = {name: sizes[name] for name in learnt.axes}
    if not learnt.derived:
        return axes
    made = probe(sizes).outputs
    of_outputs = learnt.shapes[-len(made) :]
    names = [one for shape in of_outputs for one in shape]
    found = dict(zip(names, (size for shape in made for size in shape), strict=True))
    return axes | {name: found[name] for name in learnt.derived}


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
    values: dict[str, Any], places: Mapping[str, Place], sizes: Mapping[str, int | float]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """Names of the top level that code reads: what makes inputs, the constructor's arguments,
    and the module itself, each with the functions that it calls.
    """

    inputs: frozenset[str]
    init: frozenset[str]
    model: frozenset[str]

    @classmethod
    def of(cls, text: str, path: Path) -> _Reads:
        signature.syntax_tree(text, str(path))  # says what is wrong with it
        top = symtable.symtable(text, str(path), "exec")
        used = {table.get_name(): set(_globals(table)) for table in top.get_children()}

        def reached(*names: str) -> frozenset[str]:
            found: set[str] = set()
            left = [name for name in names if name in used]
            while left:
                for name in used[left.pop()] - found:
                    found.add(name)
                    if name in used:
                        left.append(name)
            return frozenset(found)

        ours = {"get_inputs", "get_init_inputs"}
        makers = reached(*ours) | ours
        others = [name for name in used if name not in makers]
        return cls(
            inputs=reached("get_inputs"),
            init=reached("get_init_inputs"),
            model=reached("Model", *others),
        )


def _places(reads: _Reads, values: Mapping[str, Any]) -> dict[str, Place]:
    """Return where the whole numbers of the top level stand that only what makes inputs reads.

    Those of a tuple or list `shape` are called `shape_0`, `shape_1`, ...
    """
    names = reads.inputs - reads.init - reads.model
    return _numbers(names, values, ones=names)


def _built_places(
    reads: _Reads, values: dict[str, Any], path: Path
) -> dict[str, tuple[Place, tuple[Positions, ...]]]:
    """Return where the whole numbers stand that the constructor is given as they are.

    Each with the places in what get_init_inputs returns. A number that the module itself reads
    beside, or from which another argument is computed, is none of these: nothing tells a candidate
    that it changed.
    """
    # A 1 that makes inputs as well is a size; another one may be a dimension or a flag.
    numbers = _numbers(reads.init - reads.model, values, ones=reads.inputs)
    return {
        axis: (numbers[axis], handed)
        for axis, size in _sizes(values, numbers).items()
        if (handed := _handed(values, path, numbers[axis], size, 2 * size))
    }


def _handed(
    values: dict[str, Any], path: Path, place: Place, own: float, other: float
) -> tuple[Positions, ...]:
    """Return where get_init_inputs hands on a number of the top level as it is.

    Nothing where `other` in its place shows in another way too, or not at all.
    """
    before = dict(_leaves(_init_inputs(values, path)))
    with _moved(values, {"": place}, {"": other}):
        after = dict(_leaves(_init_inputs(values, path)))
    changed = tuple(where for where, value in after.items() if before.get(where) != value)
    plain = all(before.get(where) == own and after[where] == other for where in changed)
    return changed if plain and after.keys() == before.keys() else ()


def _listed_numbers(
    listed: Mapping[str, Mapping[str, int | float]],
    values: dict[str, Any],
    places: Mapping[str, Place],
    path: Path,
) -> dict[str, tuple[tuple[Positions, ...], tuple[float, ...]]]:
    """Return the listed numbers that are no sizes, with their places in the constructor's arguments
    and the values that workloads list.

    Raises ProblemError for one that varies and that no argument of the constructor is.
    """
    found: dict[str, tuple[tuple[Positions, ...], tuple[float, ...]]] = {}
    for name in dict.fromkeys(name for own in listed.values() for name in own):
        own = tuple(one.get(name, values[name]) for one in listed.values())
        if name in places or set(own) == {values[name]}:
            continue
        other = next(one for one in own if one != values[name])
        changed = _handed(values, path, (name, None), values[name], other)
        if not changed:
            raise ProblemError(
                f"{path}: the workloads list {name}={own}, which get_init_inputs() does not "
                "hand to Model as it is, so that no call can tell a candidate of it; hand it to "
                "the constructor, or leave it out of SHAPES"
            )
        found[name] = (changed, own)
    return found


def _leaves(value: object, where: Positions = ()) -> Iterator[tuple[Positions, object]]:
    """Yield what lists and tuples hold, with the positions that lead there."""
    if isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _leaves(item, (*where, position))
    else:
        yield where, value


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names of the top level that a scope and those inside it use."""
    for symbol in table.get_symbols():
        if symbol.is_global():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


def _numbers(
    names: Iterable[str], values: Mapping[str, Any], *, ones: Collection[str]
) -> dict[str, Place]:
    """Return where whole numbers above 1 stand, by name, then inside tuples and lists.

    Those of the names in `ones` may be 1.
    """
    found: dict[str, Place] = {}
    for name in sorted(names, key=lambda name: (isinstance(values.get(name), tuple | list), name)):
        value = values.get(name)
        if type(value) is int and value >= (1 if name in ones else 2):
            found[name] = (name, None)
        elif isinstance(value, tuple | list):
            for position, item in enumerate(value):
                if type(item) is int and item > 1:
                    found[f"{name}_{position}"] = (name, position)
    return found


class _TooLargeError(ProblemError):
    """A module reads numbers of its tensors, and at these sizes too much data is needed for it."""


class _Probe:
    """Runs the file's functions on tensors without data; a call is a sample of shapes.

    A module that reads a number of a tensor runs with data, where that is little.
    """

    def __init__(self, values: dict[str, Any], path: Path, *, places: Mapping[str, Place]) -> None:
        from cuassay.dispatch_modes import WithoutMemory

        self._values, self._path, self._places = values, path, places
        self._without_memory: Callable[[Callable[[], Any]], Any] = WithoutMemory()
        self.state: dict[str, DType] = {}
        self.held_bytes = 0  # of the last call's state, inputs and results
        self.multiply_adds = 0  # of the last call
        self.buffers: tuple[str, ...] = ()
        self.leaves: dict[str, Any] = {}
        self.outputs: list[Any] = []
        self._steps: list[Any] = []  # from a call's result to each output
        self.held: tuple[str, ...] = ()
        self.modes = False
        self.call = ""

    def __call__(self, sizes: Mapping[str, int]) -> shapes.ShapeSample:
        from cuassay.dispatch_modes import NumberNeeded
        from cuassay.hooks import MultiplyAdds, Observed

        computed: dict[str, int] = {}

        def forward() -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
            counted = MultiplyAdds()
            with Observed(counted):
                found = self._forward(sizes, computed)
            self.multiply_adds = counted.count
            return found

        try:
            try:
                leaves, state, made = self._without_memory(forward)
            except NumberNeeded as needed:
                import torch

                if sum(tensor.nbytes for tensor in self._held(sizes)) > _LARGE_BYTES:
                    raise _TooLargeError(
                        f"{self._path}: Model reads a number of a tensor, so that it has to be run "
                        f"with data, and at {dict(sizes)} its inputs and state have more than "
                        f"{_LARGE_BYTES >> 20} MiB; write the problem natively (@problem) instead"
                    ) from needed
                with torch.random.fork_rng(devices=[]):
                    leaves, state, made = forward()
        except ProblemError:
            raise
        except Exception as failure:
            raise self._refused(failure) from failure
        if not self.state:
            self.state = {name: shapes.dtype_of(value) for name, value in state.items()}
        if {name: shapes.dtype_of(value) for name, value in state.items()} != self.state:
            raise ProblemError(f"{self._path}: the model has another state at {dict(sizes)}")
        tensors = [t for t in leaves.values() if hasattr(t, "shape")]
        self.held_bytes = sum(value.nbytes for value in (*tensors, *state.values(), *made))
        return shapes.ShapeSample(
            inputs=tuple(tuple(t.shape) for t in (*tensors, *state.values())),
            outputs=tuple(tuple(t.shape) for t in made),
            computed=computed,
        )

    def inputs(self, sizes: Mapping[str, int]) -> tuple[shapes.Shape, ...]:
        """Return the shapes of what get_inputs makes and of the state; the model is not called."""
        return tuple(tuple(tensor.shape) for tensor in self._held(sizes))

    def _held(self, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        """Return what get_inputs makes and the state, without memory; the model is not called."""

        def made() -> tuple[Any, ...]:
            model, given = self._made(sizes, {})
            values = list(given.values()) if isinstance(given, Mapping) else list(given)
            return (*(value for _, value in tensors_in(values)), *model.state_dict().values())

        found: tuple[Any, ...] = self._run(made)
        return found

    def _run(self, made: Callable[[], Any]) -> Any:
        """Return what the file's functions make without memory. Raises ProblemError."""
        try:
            return self._without_memory(made)
        except Exception as failure:
            raise self._refused(failure) from failure

    def note_state(self, sizes: Mapping[str, int]) -> None:
        """Take the state at some sizes as that of the model: at others it may have more layers."""
        state = self._run(lambda: self._made(sizes, {})[0].state_dict())
        self.state = {name: shapes.dtype_of(value) for name, value in state.items()}

    def is_short(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call at some sizes is few operations. Raises ProblemError as a call does."""
        return self._ends(sizes, most=_FEW_OPERATIONS)

    def is_accepted(self, sizes: Mapping[str, int]) -> bool:
        """Whether the model takes some sizes, in operations that are worth waiting for."""
        from cuassay.dispatch_modes import on_meta_alone

        # What a size is refused for, fake tensors refuse as well, and they are slow to load.
        known, self._without_memory = self._without_memory, on_meta_alone
        try:
            return self._ends(sizes, most=_MOST_OPERATIONS)
        except ProblemError:
            return False
        finally:
            self._without_memory = known

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Whether the model takes some sizes."""
        try:
            self(sizes)
        except ProblemError:
            return False
        return True

    def _ends(self, sizes: Mapping[str, int], *, most: int) -> bool:
        from cuassay.hooks import EndlessRun, Observed, OperationLimit

        try:
            with Observed(OperationLimit(most)):
                self(sizes)
        except (EndlessRun, _TooLargeError):
            return False
        return True

    def _refused(self, failure: Exception) -> ProblemError:
        return ProblemError(
            f"{self._path}: Model cannot be run on shapes alone: "
            f"{describe_failure(failure, self._path)}; write the problem natively (@problem) "
            "instead"
        )

    def _made(self, sizes: Mapping[str, int], computed: dict[str, int]) -> tuple[Any, Any]:
        """Return the model at some sizes and what get_inputs returns there."""
        traced = {name: Traced.of(int(size), name, computed) for name, size in sizes.items()}
        with _moved(self._values, self._places, traced), traced_limits(self._values):
            model = self._values["Model"](*_init_inputs(self._values, self._path))
            given = self._values["get_inputs"]()
        if isinstance(given, Mapping):
            return model, {name: untraced(value) for name, value in given.items()}
        return model, untraced(list(given))

    def write_call(self, sizes: Mapping[str, int]) -> None:
        """Write the call as it is at some sizes: the numbers in it are theirs.

        The model is not called. Raises ProblemError where the inputs cannot be made.
        """

        def made() -> None:
            self.leaves, self.held, self.call = self._written_call(self._made(sizes, {})[1])

        self._run(made)

    def _forward(
        self, sizes: Mapping[str, int], computed: dict[str, int]
    ) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
        """Return a call's tensors and numbers by name, the model's state, and the results."""
        import torch

        with torch.no_grad():
            model, given = self._made(sizes, computed)
            kept = model.state_dict()
            # Batch norm, dropout and their like read `training` in their own code.
            forwards = {type(one).forward for one in model.modules()}
            codes = (getattr(forward, "__code__", None) for forward in forwards)
            self.modes = any(c is not None and "training" in c.co_names for c in codes)
            self.buffers = tuple(name for name, _ in model.named_buffers() if name in kept)
            by_name = isinstance(given, Mapping)
            with _moved(self._values, self._places, sizes):
                made = model(**given) if by_name else model(*given)
        found = list(outputs(made))
        bad = next((v for _, _, v in found if not isinstance(v, torch.Tensor)), None)
        if bad is not None or not found:
            raise TypeError(f"forward returns a {type(bad).__name__}, expected tensors")
        results = [value for _, _, value in found]
        if not self.outputs:
            self.outputs, self._steps = results, [steps for _, steps, _ in found]
        leaves, held, call = self._written_call(given)
        if not self.call:
            self.leaves, self.held, self.call = leaves, held, call
        return leaves, kept, results

    def _written_call(self, given: Any) -> tuple[dict[str, Any], tuple[str, ...], str]:
        """Return a call's tensors and numbers by name, what it holds, and its text."""
        by_name = isinstance(given, Mapping)
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
        call = adapter.call_text(
            texts,
            _steps(written, dict(zip(names, given.values() if by_name else given, strict=True))),
            self._steps,
            by_name=by_name,
        )
        return written.leaves, tuple(written.held), call


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
    probe: _Probe, learnt: shapes.LearntShapes
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


def _axes(
    learnt: shapes.LearntShapes, built: Iterable[str], listed: Sequence[Mapping[str, int]] = ()
) -> tuple[Axis, ...]:
    """Return the axes; one of which several sizes are listed ends at the largest of them.

    What an author lists spans what a module is meant for: a selection of the 64 largest need not
    select 257.
    """

    def free(name: str) -> VarAxis:
        told = "the module is built with it" if name in built else ""
        sizes = {axes[name] for axes in listed}
        if len(sizes) < 2:
            return VarAxis(name=name, description=told)
        return VarAxis(name=name, maximum=max(sizes), description=told, bounds_source=LISTED)

    return (
        *map(free, learnt.axes),
        *(VarAxis(name=name, derived=True) for name in learnt.derived),
        *(ExprAxis(name=n, expression=text) for n, text in learnt.expressions.items()),
    )

"""The native form of a problem: a typed Python function with symbolic axes and domains.

    @problem(axes={"rows": (1, 65536), "hidden": (1, 16384)}, workloads=[{"rows": 8, "hidden": 64}])
    def double(
        x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden")],
    ) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "hidden", name="y")]:
        return x * 2

The function is the reference: it stays callable and carries `__cuassay_problem__`. This module
never imports torch; a tensor annotation is recognised by its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.formats.domain_rules import check_domain, check_ties
from cuassay.formats.native.annotations import read_signature
from cuassay.formats.native.axes import AxisForm, read_axes, read_workloads
from cuassay.formats.native.ranks import over_ranks, with_ranks_axis
from cuassay.formats.native.relations import read_relations
from cuassay.formats.native.spec import (
    ScalarAnnotation,
    TensorAnnotation,
    dtype_named,
    scalar,
    tensor,
)
from cuassay.formats.native.structured import FLAT
from cuassay.model.digest import problem_digest
from cuassay.model.domain import Index
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision, precision_named
from cuassay.model.problem import InputSpec, Problem, Reference, Scalar, TensorSpec, Tolerance
from cuassay.model.relation import Relation

__all__ = ["ScalarAnnotation", "TensorAnnotation", "problem", "problem_of", "scalar", "tensor"]

ATTRIBUTE = "__cuassay_problem__"
_F = TypeVar("_F", bound=Callable[..., object])
_Generator = Callable[..., Mapping[str, object]]
# Functions by (file, qualified name): those of this process need no second import.
_FUNCTIONS: dict[tuple[str, str], Callable[..., object]] = {}


def problem(
    *,
    axes: Mapping[str, AxisForm],
    workloads: Sequence[Mapping[str, Scalar]],
    name: str | None = None,
    tolerance: Tolerance | None = None,
    reduction_axes: Sequence[str] = (),
    index_inputs: Mapping[str, Sequence[str]] | None = None,
    growth_target: Mapping[str, int] | None = None,
    accumulation: str | DType = DType.FLOAT32,
    precision: str | Precision | None = None,
    generator: _Generator | None = None,
    relations: Sequence[Relation] = (),
    ranks: Sequence[int] = (),
    split: Sequence[str] = (),
    per_rank: bool = False,
) -> Callable[[_F], _F]:
    """Declare the decorated function as the reference of a problem.

    An axis is a size (constant), (minimum, maximum), (minimum, maximum, multiple_of) or an
    expression of other axes. A workload binds the axes that vary and may give scalar inputs.
    `generator(axes_and_scalars, device)` makes inputs; `index_inputs` maps an index input to
    the outputs whose rows it addresses (default: those whose first axis is its domain's).
    `precision` is the policy: strict, tf32, mixed or fp8 (default: what the types of the large
    tensors say, see `model.policy`).
    `relations` (cuassay.model.relation) are checked on the reference before they are used.
    `ranks` are the numbers of processes that share a call (see `formats.native.ranks`): each has
    its slice of a tensor whose first axis is "ranks", a part of one that `split` names, and all of
    every other. With `per_rank` the function is called once on each, under torch.distributed.
    Raises ProblemError where any of it contradicts the signature.
    """

    def decorate(function: _F) -> _F:
        where = f"problem '{name or function.__name__}'"
        inputs, outputs, structure = read_signature(function, where=where)
        forms, works = axes, workloads
        spread = None
        if ranks:
            forms, works = with_ranks_axis(ranks, axes, workloads, where=where)
        known = read_axes(forms, inputs, outputs, where=where)
        if ranks:
            if structure is not None:
                raise ProblemError(
                    f"{where}: with ranks=... inputs go by position and outputs are returned; "
                    "drop keyword-only arguments, containers and out=True"
                )
            spread = over_ranks(
                function, inputs, outputs, split=split, per_rank=per_rank, where=where
            )
            outputs = spread.outputs
        for spec in inputs:
            check_domain(spec, where=f"{where}: the domain of '{spec.name}'")
        check_ties(inputs, where=where)
        chosen = replace(tolerance, origin="native") if tolerance is not None else None
        target = dict(growth_target or {})
        _known("axis", list(target), axes)
        for axis, size in target.items():
            if size < 1:
                raise ProblemError(
                    f"{where}: growth_target['{axis}'] is {size}, expected 1 or more"
                )
        made = Problem(
            name=name or function.__name__,
            axes=known,
            inputs=inputs,
            outputs=outputs,
            reference=_reference(function, generator, where=where),
            workloads=read_workloads(
                works,
                known,
                inputs,
                outputs=outputs,
                tolerance=chosen,
                custom=generator is not None,
                where=where,
            ),
            origin="native",
            path=_file(function),
            description=inspect.cleandoc(function.__doc__ or ""),
            accumulation=dtype_named(accumulation),
            precision=precision_named(precision),
            reduction_axes=_known("reduction axis", reduction_axes, axes),
            index_inputs=_index_inputs(index_inputs, inputs, outputs),
            growth_target=target,
            relations=read_relations(relations, inputs, outputs, where=where),
            ranks=None if spread is None else spread.ranks,
        )
        if spread is not None:
            made = replace(
                made,
                reference=replace(made.reference, function=spread.call.__qualname__),
            )
            function.__globals__[spread.call.__name__] = spread.call
            _attach(spread.call, made, generator)
        if structure is not None:
            made = replace(
                made,
                reference=replace(made.reference, function=f"{function.__qualname__}{FLAT}"),
                entry=structure.entry(),
                held=structure.held,
                updated=structure.updated,
            )
            flat = structure.function(function)
            # Under this name other processes find it, when they import the file.
            function.__globals__[flat.__name__] = flat
            _attach(flat, made, generator)
        _attach(function, made, generator)
        return function

    return decorate


def _attach(function: Callable[..., object], made: Problem, generator: _Generator | None) -> None:
    made = replace(made, digest=problem_digest(made))
    setattr(function, ATTRIBUTE, made)
    place = str(made.reference.path)
    _FUNCTIONS[place, function.__qualname__] = function
    if generator is not None:
        _FUNCTIONS[place, generator.__qualname__] = generator


def problem_of(function: object) -> Problem | None:
    """Return the problem that a decorated function carries, None for anything else."""
    found = getattr(function, ATTRIBUTE, None)
    return found if isinstance(found, Problem) else None


def registered(path: Path, function: str) -> Callable[..., object] | None:
    """Return the function that this process decorated in `path`, if any."""
    return _FUNCTIONS.get((str(path), function))


def _file(function: Callable[..., object]) -> Path:
    return Path(inspect.getsourcefile(function) or "<unknown>").absolute()


def _reference(
    function: Callable[..., object], generator: _Generator | None, *, where: str
) -> Reference:
    path = _file(function)
    if generator is not None and _file(generator) != path:
        raise ProblemError(
            f"{where}: generator '{generator.__qualname__}' is defined in {_file(generator)}, "
            f"expected a function of {path}; move or wrap it there"
        )
    if not path.is_file():
        raise ProblemError(
            f"{where}: its source {path} is not a file; write the function into a .py file: "
            "other processes load the reference from there"
        )
    return Reference(
        path=path,
        function=function.__qualname__,
        source=path.read_text(encoding="utf-8"),
        generator=generator.__qualname__ if generator is not None else None,
    )


def _known(kind: str, names: Sequence[str], legal: Mapping[str, object]) -> tuple[str, ...]:
    for used in names:
        if used not in legal:
            raise UnknownNameError(kind, used, legal)
    return tuple(names)


def _index_inputs(
    given: Mapping[str, Sequence[str]] | None,
    inputs: Sequence[InputSpec],
    outputs: Sequence[TensorSpec],
) -> dict[str, tuple[str, ...]]:
    names = {spec.name: spec for spec in outputs}
    if given is not None:
        _known("index input", list(given), {spec.name: spec for spec in inputs})
        return {key: _known("output", value, names) for key, value in given.items()}
    derived = {
        spec.name: tuple(
            output.name
            for output in outputs
            if output.shape and output.shape[0] == spec.domain.axis
        )
        for spec in inputs
        if isinstance(spec.domain, Index)
    }
    return {key: value for key, value in derived.items() if value}

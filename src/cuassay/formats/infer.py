"""Legal values of a foreign problem's inputs: its format has no field for them.

Evidence, strongest first: how the reference uses an input (an index into an axis), how the
generator draws it, its name and description, and the benchmark's own random rule. What has
no evidence stays unknown and says so, since a finding outside a guessed domain condemns nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cuassay.formats.infer_generator import read_generator
from cuassay.formats.infer_names import (
    float_domain,
    integer_domain,
    mask_domain,
    scalar_domain,
    sentinels,
)
from cuassay.formats.infer_reference import IndexUse, InputEvidence, read_reference
from cuassay.model.axes import resolve
from cuassay.model.domain import (
    Domain,
    Index,
    IntegerRange,
    Opaque,
    Positive,
    Probability,
    Real,
    SizeOf,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    ConstAxis,
    InputSpec,
    Problem,
    RandomSource,
    Scalar,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
)

INFERRED, DEFAULT = "inferred", "default"
RANDOM_INTEGERS = IntegerRange(low=-1024, high=1023)  # the benchmark's range for 16 bits and up
RANDOM_BYTES = {
    DType.INT8: IntegerRange(low=-128, high=127),
    DType.UINT8: IntegerRange(low=0, high=255),
}


def with_domains(problem: Problem, *, op_type: str = "") -> Problem:
    """Return the problem with a domain for every input, and with `index_inputs` filled."""
    evidence = read_reference(problem)
    drawn = read_generator(problem)
    inputs = tuple(
        _scalar(spec, problem, drawn)
        if isinstance(spec, ScalarSpec)
        else _tensor(spec, problem, evidence, drawn=drawn, op_type=op_type)
        for spec in problem.inputs
    )
    made = replace(problem, inputs=inputs)
    return replace(made, index_inputs=_index_inputs(made, evidence.uses))


def _seen(spec: ScalarSpec, problem: Problem) -> list[Scalar]:
    sources = (workload.sources.get(spec.name) for workload in problem.workloads)
    return [source.value for source in sources if isinstance(source, ScalarSource)]


def _scalar(spec: ScalarSpec, problem: Problem, drawn: Mapping[str, Domain]) -> ScalarSpec:
    seen = _seen(spec, problem)
    default = seen[0] if seen else None
    domain = _size_of(spec, problem) or scalar_domain(spec, seen) or drawn.get(spec.name)
    if domain is not None:
        return replace(spec, domain=domain, domain_source=INFERRED, default=default)
    fallback = _without_evidence(spec, problem)
    return replace(spec, domain=fallback, domain_source=_label(fallback), default=default)


def _size_of(spec: ScalarSpec, problem: Problem) -> SizeOf | None:
    """Return the one axis whose size an integer has in every workload, where it differs."""
    if spec.dtype is DType.BOOL or spec.dtype.is_floating:
        return None
    axes = [axis.name for axis in problem.axes if not isinstance(axis, ConstAxis)]
    values: set[Scalar] = set()
    for workload in problem.workloads:
        source = workload.sources.get(spec.name)
        if not isinstance(source, ScalarSource):
            return None
        sizes = resolve(problem.axes, workload.axes)
        axes = [name for name in axes if sizes[name] == source.value]
        values.add(source.value)
    return SizeOf(axis=axes[0]) if len(axes) == 1 and len(values) > 1 else None


def _tensor(
    spec: TensorSpec,
    problem: Problem,
    evidence: InputEvidence,
    *,
    drawn: Mapping[str, Domain],
    op_type: str,
) -> TensorSpec:
    domain: Domain | None
    if spec.dtype is DType.BOOL:
        domain = mask_domain(spec)
    elif spec.dtype is DType.FLOAT4_E2M1FN_X2:
        domain = None  # every code is legal: what a generator draws are bytes, not values
    elif spec.dtype.is_floating:
        source = problem.reference.source
        domain = _float_evidence(spec, evidence, drawn, op_type=op_type, source=source)
    else:
        uses = [use for use in evidence.uses if use.source == spec.name]
        domain = _indexed(spec, problem, uses, drawn=drawn.get(spec.name))
        domain = domain or drawn.get(spec.name) or integer_domain(spec, problem)
    if domain is not None:
        return replace(spec, domain=domain, domain_source=INFERRED)
    fallback = _without_evidence(spec, problem)
    return replace(spec, domain=fallback, domain_source=_label(fallback))


def _label(fallback: Domain) -> str:
    return DEFAULT if isinstance(fallback, Real) else INFERRED


def _float_evidence(
    spec: TensorSpec,
    evidence: InputEvidence,
    drawn: Mapping[str, Domain],
    *,
    op_type: str,
    source: str,
) -> Domain | None:
    if op_type == "sampling" and spec.name == "probs":
        return Probability()
    named = float_domain(spec, op_type=op_type, source=source)
    if named is not None:
        return named
    if spec.name in evidence.positive:
        return Positive()
    return drawn.get(spec.name)


def _indexed(
    spec: TensorSpec, problem: Problem, uses: Sequence[IndexUse], *, drawn: Domain | None
) -> Index | None:
    """Return the index domain that the reference shows; of several axes the first counts."""
    if not uses:
        return None
    unique = any(use.exclusive for use in uses) or (isinstance(drawn, Index) and drawn.unique)
    axis = _named(uses[0].axis, problem, drawn)
    return Index(axis=axis, sentinels=sentinels(problem, spec), unique=unique)


def _named(axis: str, problem: Problem, drawn: Domain | None) -> str:
    """Return the axis that a literal or expression stands for, where something names it.

    A reference may write `zeros(16, ...)` for an output whose first axis is 16 wide.
    """
    names = {known.name for known in problem.axes}
    if axis in names:
        return axis
    if isinstance(drawn, Index) and drawn.axis in names:
        return drawn.axis
    rows = {output.shape[0] for output in problem.outputs if output.shape}
    equal = [
        known.name
        for known in problem.axes
        if isinstance(known, ConstAxis) and known.name in rows and str(known.value) == axis
    ]
    return equal[0] if len(equal) == 1 else axis


def _without_evidence(spec: InputSpec, problem: Problem) -> Domain:
    if spec.dtype.is_floating:
        return Real()
    sources = [workload.sources.get(spec.name) for workload in problem.workloads]
    if sources and all(isinstance(source, RandomSource) for source in sources):
        return RANDOM_BYTES.get(spec.dtype, RANDOM_INTEGERS)
    return Opaque(why="only the problem's generator or stored file tells legal values")


def _index_inputs(problem: Problem, uses: Sequence[IndexUse]) -> dict[str, tuple[str, ...]]:
    """Map an index input to the outputs whose first axis it addresses.

    An input that the reference only reads with addresses no output.
    """
    found: dict[str, tuple[str, ...]] = {}
    for spec in problem.inputs:
        if not isinstance(spec.domain, Index):
            continue
        shown = [use for use in uses if use.source == spec.name]
        if shown and not any(use.writes for use in shown):
            continue
        axis = spec.domain.axis
        rows = tuple(out.name for out in problem.outputs if out.shape and out.shape[0] == axis)
        if rows:
            found[spec.name] = rows
    return found

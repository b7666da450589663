"""Legal values of a foreign problem's inputs as far as names tell: no format has a field for them.

Evidence here: name and description, the values of workloads, and the benchmark's own random rule.
How the reference uses an input and what the generator draws is found by experiment (`contract/`),
and wins. What has no evidence stays unknown and says so, since a finding outside a guessed domain
condemns nobody.
"""

from __future__ import annotations

from dataclasses import replace

from cuassay.formats.infer_names import float_domain, integer_domain, mask_domain, scalar_domain
from cuassay.model.axes import resolve
from cuassay.model.domain import Domain, IntegerRange, Opaque, Probability, Real, SizeOf
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
    """Return the problem with a domain for every input."""
    inputs = tuple(
        _scalar(spec, problem)
        if isinstance(spec, ScalarSpec)
        else _tensor(spec, problem, op_type=op_type)
        for spec in problem.inputs
    )
    return replace(problem, inputs=inputs)


def _scalar(spec: ScalarSpec, problem: Problem) -> ScalarSpec:
    sources = (workload.sources.get(spec.name) for workload in problem.workloads)
    seen = [source.value for source in sources if isinstance(source, ScalarSource)]
    default = seen[0] if seen else None
    domain = _size_of(spec, problem) or scalar_domain(spec, seen)
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


def _tensor(spec: TensorSpec, problem: Problem, *, op_type: str) -> TensorSpec:
    domain: Domain | None
    if spec.dtype is DType.BOOL:
        domain = mask_domain(spec)
    elif spec.dtype is DType.FLOAT4_E2M1FN_X2:
        domain = None  # every code is legal: what a generator draws are bytes, not values
    elif op_type == "sampling" and spec.name == "probs":
        domain = Probability()
    elif spec.dtype.is_floating:
        domain = float_domain(spec, op_type=op_type, source=problem.reference.source)
    else:
        domain = integer_domain(spec, problem)
    if domain is not None:
        return replace(spec, domain=domain, domain_source=INFERRED)
    fallback = _without_evidence(spec, problem)
    return replace(spec, domain=fallback, domain_source=_label(fallback))


def _label(fallback: Domain) -> str:
    return DEFAULT if isinstance(fallback, Real) else INFERRED


def _without_evidence(spec: InputSpec, problem: Problem) -> Domain:
    if spec.dtype.is_floating:
        return Real()
    sources = [workload.sources.get(spec.name) for workload in problem.workloads]
    if sources and all(isinstance(source, RandomSource) for source in sources):
        return RANDOM_BYTES.get(spec.dtype, RANDOM_INTEGERS)
    return Opaque(why="only the problem's generator or stored file tells legal values")

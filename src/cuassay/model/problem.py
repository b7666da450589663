"""What an operator must compute: axes, inputs, outputs, reference, workloads. Plain data."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from cuassay.model.domain import Choice, Domain
from cuassay.model.dtype import DType, low_type
from cuassay.model.precision import Precision
from cuassay.model.ranks import AXIS, Ranks
from cuassay.model.relation import Relation
from cuassay.model.stated import StatedFact

Scalar: TypeAlias = float | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstAxis:
    """An axis whose size never changes."""

    name: str
    value: int
    description: str = ""


LISTED = "the listed workloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class VarAxis:
    """An axis that each workload binds; sizes in [minimum, maximum], multiples of `multiple_of`.

    `declared` is False where the bounds are mere defaults, so that a failure at a size
    that no workload uses is judged with that in mind. `bounds_source` names the sidecar file
    that set them, if one did; LISTED where the largest listed size is the maximum. `sizes`, where
    not empty, are the only ones: declared so, or known to be accepted. `derived` says that the
    reference decides the size, given the other axes.
    """

    name: str
    minimum: int = 1
    maximum: int | None = None
    multiple_of: int = 1
    sizes: tuple[int, ...] = ()
    declared: bool = False
    derived: bool = False
    description: str = ""
    bounds_source: str = ""

    @property
    def is_open(self) -> bool:
        """Whether experiments are to show which of its sizes a reference accepts."""
        bounded = self.maximum is not None and self.bounds_source != LISTED
        return not (self.declared or bounded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExprAxis:
    """An axis computed from others: + - * / // % ** ceil() min() max() over axis names."""

    name: str
    expression: str
    description: str = ""


Axis: TypeAlias = ConstAxis | VarAxis | ExprAxis


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A tensor: its shape is axis names and decimal literals; () is a 0-d tensor.

    `stale` says that elements of an input that no output depends on may hold anything, NaN too.
    """

    name: str
    dtype: DType
    shape: tuple[str, ...]
    domain: Domain
    domain_source: str = "default"  # declared | inferred | experiment | default | sidecar FILE
    stale: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSpec:
    """A Python scalar argument; `default` is what the problem usually passes, if known."""

    name: str
    dtype: DType
    domain: Domain
    domain_source: str = "default"
    default: Scalar | None = None
    description: str = ""


InputSpec: TypeAlias = TensorSpec | ScalarSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSource:
    """Values are drawn at random by the benchmark's rule for the input's name and dtype."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSource:
    """A scalar given in the workload."""

    value: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsSource:
    """A tensor stored in a safetensors file; `path` is absolute once loaded."""

    path: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomSource:
    """The value comes from the problem's own generator function."""


InputSource: TypeAlias = RandomSource | ScalarSource | SafetensorsSource | CustomSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """A benchmark's own rule: element ok iff |x-y| <= atol + rtol*|y|; enough must be ok.

    `origin` says where the numbers came from (workload, benchmark default, native).
    """

    atol: float = 1e-2
    rtol: float = 1e-2
    required_matched_ratio: float = 0.99
    max_error_cap: float | None = None
    allow_negative_inf: bool = False
    origin: str = "benchmark default"


RECORDED = "recorded/"  # how the ids of workloads begin that are calls of a real program


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One binding of the var axes, where each input comes from, and the benchmark's rule.

    `tolerance` is None where nobody stated a rule. `recorded` says that it is a call of a real
    program and none of the benchmark's.
    """

    id: str
    axes: Mapping[str, int]
    sources: Mapping[str, InputSource] = field(default_factory=dict)
    tolerance: Tolerance | None = None

    @property
    def recorded(self) -> bool:
        """Whether its inputs were recorded in a running program."""
        return self.id.startswith(RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The PyTorch function that defines the operator.

    `path` is the real file that holds it (a temporary one for inline sources, so that
    tracebacks and Triton decorators find their lines); `function` its name. `generator`
    names a function in the same file that makes inputs: (axes_and_scalars, device) -> dict.
    """

    path: Path
    function: str = "run"
    source: str = ""
    generator: str | None = None


STATE_SOURCE = "state_source"  # the scalar input of a problem with `state`: a StateSource


class StateSource(enum.IntEnum):
    """Where a module's state comes from in a call: as a checkpoint is loaded, or as it was built.

    With INITIAL the module keeps the values that its own constructor drew under the problem's
    seed. With SAMPLE it computes nothing and returns the first `STATE_SAMPLE` elements of each,
    then whether it was built in training mode. The last two are GIVEN and INITIAL with both
    modules in evaluation mode, otherwise they are in the mode in which they were built.
    """

    GIVEN = 0
    INITIAL = 1
    SAMPLE = 2
    GIVEN_EVALUATION = 3
    INITIAL_EVALUATION = 4


STATE_SAMPLE = 1 << 16  # elements of one tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What the operator must compute. `origin` names the format that it was read from.

    `accumulation` is the declared precision of reductions, `precision` the policy for everything
    else (None: that of the problem's types, see `model.policy`), `reduction_axes` the axes that a
    growth test may lengthen (empty: derive them), `index_inputs` maps an index input to the
    outputs whose rows it addresses, `relations` are those that the reference is said to obey.
    `stated` are facts of inputs that every caller keeps, so that no case may break them. `state`
    are the inputs that a module's constructor draws (see `StateSource`), `built` the axes whose
    sizes it is told: each call says them by a scalar, and a module is built for each. `modes`
    says that the module asks whether it is in training or in evaluation mode. `placeholders` are
    the parts of the state that the constructor leaves unwritten: a checkpoint fills them.
    `entry` is the file through which a Python candidate is called where inputs do not go by
    position (empty: they do), `held` says what of such a call stays as the problem has it.
    `updated` are the inputs that every call changes: they hold their values again before the next.
    `ranks` says how the tensors lie where several processes share a call (None: one makes it).
    """

    name: str
    axes: tuple[Axis, ...]
    inputs: tuple[InputSpec, ...]
    outputs: tuple[TensorSpec, ...]
    reference: Reference
    workloads: tuple[Workload, ...]
    origin: str
    path: Path | None = None
    description: str = ""
    accumulation: DType = DType.FLOAT32
    precision: Precision | None = None
    reduction_axes: tuple[str, ...] = ()
    index_inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    growth_target: Mapping[str, int] = field(default_factory=dict)
    relations: tuple[Relation, ...] = ()
    stated: tuple[StatedFact, ...] = ()
    state: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    modes: bool = False
    placeholders: tuple[str, ...] = ()
    entry: str = ""
    held: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    ranks: Ranks | None = None
    digest: str = ""

    def input(self, name: str) -> InputSpec:
        """Return the input called `name`; KeyError where there is none."""
        return {spec.name: spec for spec in self.inputs}[name]

    @property
    def usual_state(self) -> dict[str, Scalar]:
        """The scalar that says where a call takes a module's state from; empty without a state."""
        if not self.state:
            return {}
        spec = self.input(STATE_SOURCE)
        assert isinstance(spec, ScalarSpec)
        return {} if spec.default is None else {STATE_SOURCE: spec.default}

    @property
    def built_state(self) -> tuple[str, ...]:
        """The parts of a module's state where its constructor alone makes them, in every case."""
        source = self.usual_state.get(STATE_SOURCE)
        built = source in (StateSource.INITIAL, StateSource.INITIAL_EVALUATION)
        return self.state if built else ()

    def with_state_from(self, source: StateSource) -> Problem:
        """Return the problem of a module that always takes its state from `source`."""
        built = source in (StateSource.INITIAL, StateSource.INITIAL_EVALUATION)
        inputs: list[InputSpec] = []
        for spec in self.inputs:
            if built and isinstance(spec, TensorSpec) and spec.name in self.state:
                spec = replace(spec, domain_source="declared")  # not to be changed by any case
            elif isinstance(spec, ScalarSpec) and spec.name == STATE_SOURCE:
                spec = replace(spec, default=source.value, domain=Choice(values=(source.value,)))
            inputs.append(spec)
        return replace(self, inputs=tuple(inputs))

    def as_built(
        self, axes: Collection[str] = (), *, beside: Mapping[str, int] | None = None
    ) -> Problem:
        """Return the problem with its module built with the sizes of its workloads alone.

        Of some axes, or of all that the constructor is told; with one more size of each `beside`.
        """
        more = beside or {}
        names = axes or self.built
        changed = tuple(
            VarAxis(
                name=axis.name,
                sizes=tuple(sorted(listed | {more.get(axis.name, min(listed))})),
                description=axis.description,
            )
            if axis.name in names and (listed := {work.axes[axis.name] for work in self.workloads})
            else axis
            for axis in self.axes
        )
        built = tuple(name for name in self.built if name not in names)
        return replace(self, axes=changed, built=built)

    @property
    def low_type(self) -> DType:
        """The problem's 16-bit type: that of most of its outputs and inputs."""
        return low_type(spec.dtype for spec in (*self.outputs, *self.inputs))

    def rank_count(self, sizes: Mapping[str, int]) -> int:
        """Return how many ranks a call on axes of these sizes has; 0 where one process makes it."""
        return sizes[AXIS] if self.ranks else 0

    def var_axes(self) -> tuple[VarAxis, ...]:
        """Return the axes that workloads bind, in declaration order."""
        return tuple(axis for axis in self.axes if isinstance(axis, VarAxis))

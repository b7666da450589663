"""How a reference uses its inputs, seen by running it: what indexes which axis, what is positive.

A foreign format has no field for it. The reference runs at a few sizes on tensors without data,
below a mode that follows each input through views and casts to the operations that index with it,
take its logarithm, or scale blocks of a product by it. Where the reference needs data, the
problem's own is given to it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from cuassay.block_scaled import has_blocks, named_arguments
from cuassay.contract.accept import own_case
from cuassay.contract.facts import Evidence, Known, Source, Used
from cuassay.dispatch_modes import storage_of, without_memory
from cuassay.formats.generated import is_stated
from cuassay.formats.infer_names import sentinels, tokens
from cuassay.hooks import EndlessRun, Observed, Operation, OperationLimit, PassThrough
from cuassay.inputs.case_inputs import case_inputs
from cuassay.inputs.geometry import elements, shares_of, try_sizes, workload_sizes
from cuassay.inputs.legal import torch_dtype
from cuassay.inputs.regimes import usual_scalar
from cuassay.inputs.scalars import sizes_given
from cuassay.model.axes import shape_of
from cuassay.model.device import Device
from cuassay.model.domain import Domain, Index, Packed, Positive, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import InputSpec, Problem, Scalar, TensorSpec
from cuassay.oracle.lift.index_range import rule_of

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference

EXPERIMENT = "experiment"  # where a domain comes from
_PRIMES = ((5, 7, 11, 13, 17, 19, 23), (31, 29, 37, 41, 43, 47, 53))  # sizes of axes in two runs
_MOST_OPERATIONS = 1 << 11  # of a run without data: a second
_MOST_ELEMENTS = 1 << 22  # of a case that runs with data
# What keeps an input's values, beside views; what may leave some out, or repeat them.
_KEEPS = {"_to_copy", "clone", "contiguous", "repeat", "repeat_interleave", "index_select", "flip",
    "gather", "index", "roll", "sort", "unique", "_unique2", "unique_dim", "cat", "stack", "copy",
    "masked_select", "lift_fresh", "_unsafe_view"}  # fmt: skip
# What keeps those within the legal range: an index is still one, a positive number is not.
_BOUNDS = {"clamp", "clamp_min", "clamp_max", "masked_fill", "where"}
_POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"}
_WRITES = {"scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_reduce",
    "index_put", "_unsafe_index_put", "_index_put_impl", "put"}  # fmt: skip
_SHIFTS = {"bitwise_right_shift", "__rshift__", "bitwise_right_shift_"}
_ANDS = {"bitwise_and", "__and__"}
_CODES = (1, 3, 15, 255)  # what cuts an integer to its lowest code
_LOSSES = {"nll_loss_forward", "nll_loss2d_forward"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """How one run indexes with values of an input: first into `size` rows.

    `writes` tells scatter from gather; `exclusive` that equal indices would overwrite each other,
    so that only distinct ones have a meaning.
    """

    size: int
    writes: bool
    exclusive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What one run showed at some sizes: uses by input, and what has to be positive."""

    sizes: Mapping[str, int]
    uses: Mapping[str, _Use]
    positive: frozenset[str]
    packed: Mapping[str, int]  # bits of the codes that are taken out of an input's integers
    complete: bool  # whether it came to its end
    endless: bool = False  # whether it was ended as too long


def with_uses(
    problem: Problem, reference: LoadedReference, *, device: Device
) -> tuple[Problem, tuple[Known, ...]]:
    """Return the problem with the domains that its reference's run shows, and the facts.

    What the problem states stays, what its names say of floats, and a module's state: the
    constructor alone makes that, also where it is an index. `index_inputs` maps an index to the
    outputs whose first axis it addresses; one that the reference only reads with addresses none.
    """
    opened = {s.name for s in problem.inputs if _is_open(s) and s.name not in problem.state}
    if not opened:
        return problem, ()
    runs = list(_runs(problem, reference, device))
    inputs: list[InputSpec] = []
    found: list[Known] = []
    read_only: set[str] = set()
    for spec in problem.inputs:
        shown = [(run.sizes, run.uses[spec.name]) for run in runs if spec.name in run.uses]
        how, axis = "", None
        if spec.name in opened and spec.dtype.is_floating:
            if any(spec.name in run.positive for run in runs):
                spec = _with(spec, Positive())
                how = "the argument of a root, logarithm or reciprocal, or a block's scale"
        elif spec.name in opened and shown:
            axis = _axis(problem, spec.name, [(sizes, use.size) for sizes, use in shown])
            if axis is not None:
                how, unique = "an index", any(use.exclusive for _, use in shown)
                marks = sentinels(problem, spec) if isinstance(spec, TensorSpec) else ()
                spec = _with(spec, Index(axis=axis, sentinels=marks, unique=unique))
        elif spec.name in opened and isinstance(spec, TensorSpec):
            bits = {run.packed[spec.name] for run in runs if spec.name in run.packed}
            if len(bits) == 1 and not 8 * spec.dtype.itemsize % min(bits):
                how = "packed codes"
                spec = _with(spec, Packed(bits=min(bits)))
        if how:
            used = Used(input=spec.name, how=how, axis=axis or "")
            evidence = Evidence(source=Source.REFERENCE, count=len(shown) or len(runs))
            found.append(Known(fact=used, evidence=evidence))
        if shown and not any(use.writes for _, use in shown):
            read_only.add(spec.name)
        inputs.append(spec)
    made = dataclasses.replace(problem, inputs=tuple(inputs))
    made = dataclasses.replace(made, index_inputs=_index_inputs(made, read_only))
    return (problem if made == problem else made), tuple(found)


def _is_open(spec: InputSpec) -> bool:
    """Whether an input's domain is for the reference to show."""
    if not isinstance(spec, TensorSpec) or is_stated(spec) or spec.dtype is DType.BOOL:
        return False
    return not spec.dtype.is_floating or spec.domain == Real()


def _with(spec: InputSpec, domain: Domain) -> InputSpec:
    return dataclasses.replace(spec, domain=domain, domain_source=EXPERIMENT)


def _axis(
    problem: Problem, source: str, sized: Sequence[tuple[Mapping[str, int], int]]
) -> str | None:
    """Return the axis, or an expression of axes, that has a size in every run.

    Of constants of one size the one comes first that begins an output, then one that shares a
    word with the input. A size that is the same in all runs and no axis is a literal.
    """
    names = [axis.name for axis in problem.axes]
    rows = [output.shape[0] for output in problem.outputs if output.shape]
    words = tokens(source)
    for name in sorted(names, key=lambda one: (one not in rows, not words & tokens(one))):
        if all(sizes[name] == size for sizes, size in sized):
            return name
    literal = {size for _, size in sized}
    if len(literal) == 1:
        return str(literal.pop())
    for name in names:
        for step in (1, -1):
            if all(sizes[name] + step == size for sizes, size in sized):
                return f"({name} {'+' if step > 0 else '-'} 1)"
    for one, other in itertools.combinations(names, 2):
        if all(sizes[one] * sizes[other] == size for sizes, size in sized):
            return f"({one} * {other})"
    return None


def _index_inputs(problem: Problem, read_only: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for spec in problem.inputs:
        if isinstance(spec.domain, Index) and spec.name not in read_only:
            axis = spec.domain.axis
            rows = tuple(o.name for o in problem.outputs if o.shape and o.shape[0] == axis)
            if rows:
                found[spec.name] = rows
    return found


def _runs(problem: Problem, reference: LoadedReference, device: Device) -> Iterator[_Seen]:
    """Run the reference twice at sizes unlike each other, or at the least and largest workload.

    An axis is told by its size. Without data first; with data where that shows no end.
    """
    workloads = sorted(
        (workload_sizes(problem, workload) for workload in problem.workloads),
        key=lambda sizes: elements(problem, sizes),
    )
    free = [axis.name for axis in problem.var_axes() if not axis.derived]
    unlike = [
        try_sizes(problem, workloads[0], dict(zip(free, itertools.cycle(primes), strict=False)))
        for primes in _PRIMES
    ]
    ours = [_without_data(problem, reference, one, device) for one in unlike[:1] if one]
    accepted = bool(ours) and ours[0] is not None and ours[0].complete
    with_data = any(
        _is_open(spec) and (spec.dtype is DType.FLOAT8_E4M3FN or not spec.dtype.is_floating)
        for spec in problem.inputs
    )
    if accepted and not with_data:
        yield from filter(None, ours)
        return
    wanted = [one for one in unlike[1:] if one]
    if not accepted:
        wanted += [workloads[0], *workloads[1:][-1:]]
    found = [*ours, *(_shorter(problem, reference, one, device) for one in wanted)]
    if with_data and not any(run is not None and run.complete for run in found):
        sizes = [one for one in (*unlike[:1], *wanted) if one]
        shown = [_with_data(problem, reference, one, device) for one in sizes]
        if not any(shown):  # sizes unlike each other are refused, those of workloads are large
            parts = (
                (_with_data(problem, reference, part, device) for part in shares_of(problem, one))
                for one in wanted
            )
            shown = [next(filter(None, runs), None) for runs in parts]
        found += shown
    yield from filter(None, found)


def _shorter(
    problem: Problem, reference: LoadedReference, sizes: Mapping[str, int], device: Device
) -> _Seen | None:
    """Return what a run without data shows, at a share of the sizes where it is a long loop."""
    seen = _without_data(problem, reference, sizes, device)
    for smaller in shares_of(problem, sizes) if seen is not None and seen.endless else ():
        found = _without_data(problem, reference, smaller, device)
        if found is not None and found.complete:
            return found
    return seen


def _without_data(
    problem: Problem, reference: LoadedReference, sizes: Mapping[str, int], device: Device
) -> _Seen | None:
    """Return what a run on tensors without data shows, as far as it gets."""
    followed: list[_Follow] = []
    endless = False

    def run() -> None:
        workload = next(iter(problem.workloads), None)
        given: dict[str, torch.Tensor | Scalar] = {}
        told = sizes_given(problem, sizes)
        for spec in problem.inputs:
            if spec.name in told:
                given[spec.name] = told[spec.name]
            elif isinstance(spec, TensorSpec):
                shape, dtype = shape_of(spec.shape, sizes), torch_dtype(spec.dtype)
                given[spec.name] = torch.empty(shape, dtype=dtype, device=device)
            else:
                given[spec.name] = usual_scalar(spec, workload, seed=0)
        followed.append(_Follow(given))
        _call(reference.call, given, followed[-1], OperationLimit(_MOST_OPERATIONS))

    try:
        with contextlib.suppress(Exception):  # whatever a foreign reference says of such tensors
            without_memory(run)
    except EndlessRun:
        endless = True
    seen = [dataclasses.replace(one.seen(sizes), endless=endless) for one in followed]
    return max(seen, key=lambda one: (one.complete, len(one.uses)), default=None)


def _with_data(
    problem: Problem, reference: LoadedReference, sizes: Mapping[str, int], device: Device
) -> _Seen | None:
    if elements(problem, sizes) > _MOST_ELEMENTS:
        return None
    case = own_case(problem, sizes, seed=0, label="uses of the inputs")
    try:
        given = case_inputs(problem, case, device=device, reference=reference)
        followed = _Follow(given)
        _call(reference.call, given, followed)
    except Exception:  # what is wrong with it is said where it is judged
        return None
    return followed.seen(sizes)


def _call(
    call: Callable[..., object],
    given: Mapping[str, torch.Tensor | Scalar],
    follow: _Follow,
    *limits: OperationLimit,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Observed(*limits, follow), _Functions(follow):
            call(*given.values())
    follow.complete = True


class _Functions(TorchFunctionMode):
    """Sees what becomes another operation where tensors have no data."""

    def __init__(self, follow: _Follow) -> None:
        super().__init__()
        self._follow = follow

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch."""
        named = dict(kwargs or {})
        if func is torch.nn.functional.one_hot:
            count = named.get("num_classes", args[1] if len(args) > 1 else -1)
            if count > 0:
                self._follow.use(args[0] if args else named["tensor"], int(count))
        return func(*args, **named)


class _Follow(PassThrough):
    """Follows the values of inputs to the operations that use them."""

    def __init__(self, inputs: Mapping[str, object]) -> None:
        self.complete = False
        self._uses: dict[str, _Use] = {}
        self._positive: set[str] = set()
        self._shifted: set[str] = set()
        self._packed: dict[str, int] = {}
        self._kept: list[torch.Tensor] = []  # so that no address is used again
        self._of: dict[int, frozenset[str]] = {}  # values of which inputs a storage holds
        self._bounded: set[int] = set()  # those that something was done to which keeps indices
        for name, value in inputs.items():
            if isinstance(value, torch.Tensor) and value.dtype is not torch.bool:
                self._note(value, frozenset({name}), bounded=False)

    def seen(self, sizes: Mapping[str, int]) -> _Seen:
        """Return what this run showed."""
        return _Seen(
            sizes=sizes,
            uses=dict(self._uses),
            positive=frozenset(self._positive),
            packed={name: bits for name, bits in self._packed.items() if name in self._shifted},
            complete=self.complete,
        )

    def replace(self, operation: Operation) -> object:
        """Note what the operation indexes with, and what has to be positive for it."""
        name = operation.name
        if name in _LOSSES:
            scores, target = operation.args[:2]
            size = scores.shape[1 if scores.ndim > 1 else 0]
            self.use(target, size)
        else:
            rule = rule_of(operation.op)
            if rule is not None and not name.endswith("_backward"):
                named = operation.named
                indices = list(rule(named))
                for index, size, _ in indices:
                    self.use(
                        index,
                        size,
                        writes=name in _WRITES
                        and not isinstance(named.get("value"), bool | int | float),
                        exclusive=len(indices) == 1 and _overwrites(name, named),
                    )
        positive = [operation.args[0]] if name in _POSITIVE else []
        if name == "_scaled_mm" and has_blocks(
            named := named_arguments(operation.args, operation.kwargs)
        ):
            positive = [named["scale_a"], named["scale_b"]]  # tensor cores read no sign of them
        for tensor in positive:
            if (
                isinstance(tensor, torch.Tensor)
                and (key := storage_of(tensor)) not in self._bounded
            ):
                self._positive |= self._of.get(key, frozenset())
        return NotImplemented

    def after(self, operation: Operation, out: Any) -> object:
        """Note which inputs' values a result holds."""
        if not operation.op.is_view:
            self._follow(operation, out)
        if operation.name in _SHIFTS or operation.name in _ANDS:
            # Note that codes are taken out of integers: shifted to the right, then cut to few
            # bits.
            args = operation.args
            held = (
                self._of.get(storage_of(args[0]), frozenset())
                if isinstance(args[0], torch.Tensor)
                else frozenset()
            )
            held -= self._uses.keys()
            self._note(out, held, bounded=False)
            if operation.name in _SHIFTS:
                self._shifted |= held
            elif isinstance(args[1], int) and args[1] in _CODES:
                self._packed |= dict.fromkeys(held, args[1].bit_length())
        return out

    def _follow(self, operation: Operation, out: Any) -> None:
        name, args = operation.name, operation.args
        leaves = pytree.tree_leaves((args, operation.kwargs))
        given = [t for t in leaves if isinstance(t, torch.Tensor)]
        shifted = (
            name == "add"
            and not isinstance(args[1], torch.Tensor)
            and (given[0].is_floating_point())
        )
        held: frozenset[str] = frozenset()
        bounded = name in _BOUNDS
        if name in _KEEPS or bounded or shifted:
            first = given[:1] if name in ("gather", "index", "index_select") else given
            held = frozenset().union(*(self._of.get(storage_of(t), frozenset()) for t in first))
            bounded = bounded or any(storage_of(t) in self._bounded for t in first)
        for number, tensor in enumerate(pytree.tree_leaves(out)):
            if isinstance(tensor, torch.Tensor):  # behind sorted values are places, not values
                self._note(tensor, frozenset() if number else held, bounded=bounded)

    def _note(self, tensor: torch.Tensor, held: frozenset[str], *, bounded: bool) -> None:
        self._kept.append(tensor)
        place = storage_of(tensor)
        self._of[place] = held
        if bounded:
            self._bounded.add(place)

    def use(
        self, index: torch.Tensor, size: int, *, writes: bool = False, exclusive: bool = False
    ) -> None:
        """Note that values of `index` choose among `size`."""
        for source in self._of.get(storage_of(index), frozenset()):
            before = self._uses.get(source)
            self._uses[source] = _Use(
                size=size if before is None else before.size,
                writes=writes or (before is not None and before.writes),
                exclusive=exclusive or (before is not None and before.exclusive),
            )


def _overwrites(name: str, named: Mapping[str, Any]) -> bool:
    """Whether equal indices would overwrite each other's values."""
    match name:
        case "index_copy":
            return bool(named["dim"] == 0)
        case "scatter":
            return bool(named["dim"] == 0) and isinstance(named.get("src"), torch.Tensor)
        case "index_put" | "_unsafe_index_put" | "_index_put_impl":
            return not named["accumulate"] and bool(named["values"].numel() > 1)
    return False

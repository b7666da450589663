"""Whether a problem's reference accepts a case, and the sizes that it really has.

Shapes are tried without data first (torch's fake tensors: no memory, no arithmetic). What needs
data, and what fakes refuse, runs for real.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import torch

from cuassay.contract.facts import Tried
from cuassay.dispatch_modes import WithoutMemory, on_fakes, on_meta_alone
from cuassay.errors import CuassayError, ProblemError
from cuassay.hooks import EndlessRun, Observed, OperationLimit
from cuassay.inputs.case_inputs import case_inputs, workload_of
from cuassay.inputs.fills import default_fill
from cuassay.inputs.geometry import elements, try_sizes, workload_sizes
from cuassay.inputs.legal import torch_dtype
from cuassay.inputs.materialise import short_numbers
from cuassay.inputs.scalars import default_scalar, may_be_sizes, sizes_given
from cuassay.model import serial
from cuassay.model.axes import evaluate, resolve, shape_of
from cuassay.model.case import GENERATED, Case, Fill
from cuassay.model.device import Device
from cuassay.model.domain import Index, Mask
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    ConstAxis,
    CustomSource,
    Problem,
    Scalar,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    VarAxis,
)
from cuassay.oracle.lift.run import run_as_written

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference

_ROUNDS = 4  # corrections of derived sizes before a case counts as refused
# Up to which a real run costs next to nothing. Inputs of modules that are built for each size are
# drawn by a CPU, whatever the device.
_REAL_ELEMENTS = {"cpu": 1 << 16, "cuda": 1 << 24}
# The same where runs without data do not show which sizes leave nothing finite, or are refused.
_FINITE_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}
_BY_CHANCE = 64  # elements, fewer of which may be finite by chance
_FEW_OPERATIONS = 1 << 9  # of a run without data: a tenth of a second
_MOST_OPERATIONS = 1 << 14  # of generator and reference at a size of ours: some seconds
_MOST_WITHOUT_DATA = 1 << 11  # which take longer than with data, where torch wrote them in Python
_REAL_LIMIT = {"cpu": 1 << 27, "cuda": 1 << 30}  # beyond, what fakes refuse is refused

Value = torch.Tensor | Scalar


class _Refused(Exception):
    """The reference or the generator refuses a case; the message says why.

    `sure` is False where fake tensors alone refused it, for want of data say.
    """

    def __init__(self, why: str, *, sure: bool = True) -> None:
        self.sure = sure
        super().__init__(why)


def _own(value: object) -> object:
    """Return a short tensor that has values as a copy, which a reference may write into."""
    if isinstance(value, torch.Tensor) and value.device.type != "meta":
        return value.clone()
    return value


def _most(real: bool) -> int:
    """Return the most operations of a run that tries a case, with data or without."""
    return _MOST_OPERATIONS if real else _MOST_WITHOUT_DATA


class Acceptor:
    """Answers for one problem on one device; every answer is remembered in `tried`.

    `relieve` makes room for a case after memory ran out and says whether it could. A workload
    that has none is accepted as it is: only a smaller one is judged then.
    """

    def __init__(
        self,
        problem: Problem,
        reference: LoadedReference,
        *,
        device: Device,
        relieve: Callable[[Case], bool] = lambda case: False,
    ) -> None:
        self._relieve = relieve
        self.problem = problem
        self.tried: list[Tried] = []
        self._reference, self._device = reference, device
        self._kind = device.kind
        self._answers: dict[str, Case | None] = {}
        self._fakes: dict[str, Mapping[str, object]] = {}  # what the generator made without memory
        self._without_memory = WithoutMemory()
        self._fakes_work = False  # whether some case went through without data
        self._finite = 0  # the most elements of a case of ordinary values and finite outputs
        self._sizes_decide = False  # whether a smaller case had others
        self._data_decides = False  # whether a run refused what went through without data
        self._reads_numbers = False  # whether a run without data ended where one was read
        self._ratios: dict[str, Mapping[str, Fraction]] = {}  # that all workloads keep, by axis

    def settle(self, case: Case) -> Case | None:
        """Return the case as the reference accepts it, None where it refuses.

        Axes whose size the generator or the reference decides get the size that they really
        have. Sizes at which ordinary values make an output that is not finite are refused where
        other sizes make finite ones: a window that covers nothing but padding, the deviation of
        one element.
        """
        key = serial.dumps(dataclasses.replace(case, label="", seed=0))
        if key not in self._answers:
            try:
                self._answers[key], why = self._settled(case), ""
            except _Refused as refused:
                self._answers[key], why = None, str(refused)
            sizes = ", ".join(f"{a.name}={case.axes[a.name]}" for a in self.problem.var_axes())
            self.tried.append(Tried(what=sizes or case.label, refused=why))
        found = self._answers[key]
        if found is None:
            return None
        return dataclasses.replace(found, label=case.label, seed=case.seed)

    def ask_with_data(self) -> bool:
        """Ask again, with data where that is no large case; return whether that is new.

        For where the reference refused what it had accepted: torch's functions for the device
        `meta` check less in some versions, such as that a window fits into its input.
        """
        if self._data_decides:
            return False
        self._data_decides = True
        self._answers.clear()
        return True

    def sizes(self, base: Case, changes: Mapping[str, int]) -> dict[str, int] | None:
        """Return the sizes that `base` really has with some axes changed, None where refused."""
        changed = try_sizes(self.problem, base.axes, changes)
        if changed is None:
            return None
        found = self.settle(dataclasses.replace(base, axes=changed))
        return None if found is None else dict(found.axes)

    def is_short(self, case: Case) -> bool:
        """Whether a run at a case's sizes is few operations, as far as one without data shows."""

        def run() -> bool:
            with Observed(OperationLimit(_FEW_OPERATIONS)):
                return self._ran(case, real=False)[1] is not None

        try:
            return on_meta_alone(run)
        except EndlessRun:
            return False
        except Exception:  # it is refused, or needs data: `settle` finds out
            return True

    def _settled(self, case: Case) -> Case:
        # Refuse more distinct indices than there are rows, where we draw the indices.
        if not case.benchmark:
            for spec in self.problem.inputs:
                domain, fill = spec.domain, case.fills.get(spec.name)
                if not isinstance(spec, TensorSpec) or not isinstance(domain, Index):
                    continue
                drawn = fill is not None and fill.kind != GENERATED
                if not domain.unique or not (drawn or not case.generator):
                    continue
                count = math.prod(shape_of(spec.shape, case.axes))
                rows = evaluate(domain.axis, case.axes)
                if count > rows:
                    raise _Refused(f"'{spec.name}' needs {count} distinct indices of {rows} rows")
        for _ in range(_ROUNDS):
            actual = self._actual_sizes(case)
            if actual == dict(case.axes):
                return case
            case = dataclasses.replace(case, axes=actual)
        raise _Refused("the sizes of its tensors contradict each other")

    def _actual_sizes(self, case: Case) -> dict[str, int]:
        """Run generator and reference; return the sizes that inputs and outputs have."""
        count = elements(self.problem, case.axes)
        with_data = self._sizes_decide or self._data_decides
        real = _FINITE_ELEMENTS if with_data else _REAL_ELEMENTS
        drawn_by = "cpu" if self.problem.built else self._kind
        if count <= real[drawn_by] and not may_be_sizes(self.problem):
            return self._run(case, real=True)
        if self._reads_numbers and count <= _REAL_LIMIT[self._kind]:
            return self._run(case, real=True)
        try:
            sizes = self._run(case, real=False)
        except _Refused as refused:
            self._reads_numbers = self._reads_numbers or not refused.sure
            told = refused.sure and self._fakes_work
            if told or count > _REAL_LIMIT[self._kind]:
                raise
        else:
            self._fakes_work = True
            return sizes
        return self._run(case, real=True)

    def _run(self, case: Case, *, real: bool) -> dict[str, int]:
        try:
            if real:
                sizes, outputs = self._ran(case, real=True)
            else:
                numbers = short_numbers(self.problem, case, device=self._device)
                sizes, outputs = self._without_memory(
                    lambda: self._ran(case, real=False, numbers=numbers)
                )
            if outputs is None or sizes != dict(case.axes):
                return sizes
        except _Refused:
            raise
        except EndlessRun:
            raise _Refused(f"it makes more than {_most(real):,} operations", sure=real) from None
        except CuassayError as error:
            sure = real or not isinstance(error.__cause__, _needs_data())
            raise _Refused(str(error), sure=sure) from None
        except torch.OutOfMemoryError:
            if self._relieve(case):
                return self._run(case, real=real)
            if self._is_listed(case):
                return dict(case.axes)
            raise _Refused("it needs more memory than is planned") from None
        except Exception as error:
            sure = real or not isinstance(error, _needs_data())
            raise _Refused(f"{type(error).__name__}: {error}", sure=sure) from None
        if len(outputs) != len(self.problem.outputs):
            raise _Refused(f"the reference returned {len(outputs)} outputs")
        if real:
            self._check_finite(case, outputs)
        shapes = {
            spec.name: tuple(output.shape)
            for spec, output in zip(self.problem.outputs, outputs, strict=True)
        }
        inputs = {name for spec in self.problem.inputs if isinstance(spec, TensorSpec)
                  for name in spec.shape}  # fmt: skip
        sizes = self._read_sizes(case, shapes, specs=self.problem.outputs, fixed=inputs)
        self._check_ratios(case, sizes, inputs)
        return sizes

    def _check_ratios(self, case: Case, sizes: Mapping[str, int], inputs: set[str]) -> None:
        """Refuse an output's size that follows from data and not from the sizes of the inputs.

        It does where it is in one ratio to an axis of the inputs in all workloads. A generator that
        is asked for 13 patches, of which four are merged into one, may make data for 12: a kernel
        may count what it is given or read it from the data, which no caller tells apart.
        """
        made = {name for spec in self.problem.outputs for name in spec.shape} & sizes.keys()
        for name in sorted(made - inputs):
            if name not in self._ratios:
                self._ratios[name] = self._kept_ratios(name, inputs & sizes.keys())
            kept = self._ratios[name]
            if any(sizes[name] == ratio * sizes[other] for other, ratio in kept.items()):
                continue
            if kept and self._reads_data(case):
                other, ratio = min(kept.items())
                raise _Refused(
                    f"its data make {sizes[name]} of '{name}' and {sizes[other]} of '{other}', of "
                    f"which all workloads have {ratio.numerator} to {ratio.denominator}"
                )

    def _kept_ratios(self, name: str, others: Iterable[str]) -> Mapping[str, Fraction]:
        """Return the ratios to other axes that all workloads have; none where its size is one."""
        if len({workload_sizes(self.problem, one)[name] for one in self.problem.workloads}) < 2:
            return {}
        ratios = {other: workload_ratio(self.problem, name, other) for other in others}
        return {other: ratio for other, ratio in ratios.items() if ratio is not None}

    def _reads_data(self, case: Case) -> bool:
        """Whether the reference looks at the values of its inputs before it ends."""
        names = [spec.name for spec in self.problem.outputs]

        def run() -> None:
            with Observed(OperationLimit(_most(real=False))):
                run_as_written(self._reference.call, self._fake_inputs(case, {}), names=names)

        try:
            on_fakes(run)
        except EndlessRun:
            return False
        except Exception as error:
            return isinstance(error.__cause__ or error, _needs_data())
        return False

    def _check_finite(self, case: Case, outputs: Sequence[torch.Tensor]) -> None:
        """Refuse sizes at which ordinary values make what is not finite, as others do not.

        A few elements may be finite by chance, and of many one may not be: the logarithm of a
        normal number. Sizes decide only where a larger case had finite outputs.
        """
        count = elements(self.problem, case.axes)
        wide = [one for one in outputs if one.is_floating_point() and one.dtype.itemsize > 1]
        if all(bool(torch.isfinite(one).all()) for one in wide):
            if count > self._finite and self._plain(case) == case:
                self._finite = count
            return
        if self._finite < _BY_CHANCE or not (self._sizes_decide or count <= self._finite):
            return
        plain = self._plain(case)
        if plain == case:
            self._sizes_decide = True
            raise _Refused("an output is not finite, and at other sizes all are")
        if plain is not None:
            self._run(plain, real=True)

    def _plain(self, case: Case) -> Case | None:
        """Return a case with ordinary values, whose sizes alone decide if its outputs are finite.

        None where a mask may leave a row without anything.
        """
        fills = dict(case.fills)
        for spec in self.problem.inputs:
            if isinstance(spec.domain, Mask) or spec.dtype is DType.BOOL:
                return None
            if isinstance(spec, TensorSpec) and spec.name in fills:
                fill = fills[spec.name]
                own = fill.kind == GENERATED
                fills[spec.name] = Fill(kind=GENERATED) if own else default_fill(spec)
        return dataclasses.replace(case, fills=fills)

    def _is_listed(self, case: Case) -> bool:
        """Whether a case is one of the problem's workloads, values and sizes."""
        return case.benchmark and any(
            workload_sizes(self.problem, one) == dict(case.axes) for one in self.problem.workloads
        )

    def _ran(
        self, case: Case, *, real: bool, numbers: Mapping[str, torch.Tensor] | None = None
    ) -> tuple[dict[str, int], tuple[torch.Tensor, ...] | None]:
        """Return the sizes that the inputs have; where they are the case's, the outputs too.

        Without data, `numbers` are the inputs that have values all the same. Raises EndlessRun for
        a loop that is too long, except at a listed size: there a run with data has no limit, and
        of one without data no outputs are known. Its author says that the reference takes it, and
        with data it may last for seconds.
        """
        endless = real and self._is_listed(case)
        with nullcontext() if endless else Observed(OperationLimit(_most(real))):
            made = self._made(case, real=real)
            shapes = {
                n: tuple(value.shape)
                for n, value in made.items()
                if isinstance(value, torch.Tensor)
            }
            sizes = self._read_sizes(case, shapes)
            if sizes != dict(case.axes):
                return sizes, ()
            names = [spec.name for spec in self.problem.outputs]
            if real:
                reference = self._reference
                given = list(
                    case_inputs(
                        self.problem, case, device=self._device, reference=reference
                    ).values()
                )
            else:
                hollow = {**made, **{name: _own(value) for name, value in (numbers or {}).items()}}
                given = self._fake_inputs(case, hollow)
            try:
                return sizes, run_as_written(self._reference.call, given, names=names)
            except EndlessRun:
                if self._is_listed(case):
                    return sizes, None
                raise

    def _made(self, case: Case, *, real: bool) -> Mapping[str, object]:
        """Run the problem's generator, where the case takes inputs from it."""
        generator = self._reference.generator
        workload = workload_of(self.problem, case) if case.benchmark else None
        custom = workload is not None and any(
            isinstance(source, CustomSource) for source in workload.sources.values()
        )
        if generator is None or not (case.generator or custom):
            return {}
        scalars: dict[str, object] = dict(case.scalars)
        if workload is not None:
            scalars |= {
                name: source.value
                for name, source in workload.sources.items()
                if isinstance(source, ScalarSource)
            }
        scalars |= sizes_given(self.problem, case.axes)
        kept = {spec.name for spec in self.problem.inputs}
        drawn = {n for n, fill in case.fills.items() if fill.kind != GENERATED}
        made = self._generated({**case.axes, **scalars}, real=real)
        return {n: value for n, value in made.items() if n in kept - drawn}

    def _generated(self, asked: Mapping[str, object], *, real: bool) -> Mapping[str, object]:
        """Run the generator; without memory once for all cases of one size.

        A generator that loops takes seconds on tensors without memory.
        """
        key = repr(sorted(asked.items(), key=lambda item: item[0]))
        if not real and key in self._fakes:
            return {name: _own(value) for name, value in self._fakes[key].items()}
        assert self._reference.generator is not None
        devices = [torch.cuda.current_device()] if self._kind == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            made = self._reference.generator({**asked}, torch.device(self._device))
        # Fake tensors live and end with their mode; those on the device `meta` do not.
        fakes = any(
            isinstance(v, torch.Tensor) and type(v) is not torch.Tensor for v in made.values()
        )
        if not real and not fakes:
            self._fakes[key] = {name: _own(value) for name, value in made.items()}
        return made

    def _fake_inputs(self, case: Case, made: Mapping[str, object]) -> list[Value]:
        """Return empty tensors of the right shapes for what the generator does not make."""
        workload = workload_of(self.problem, case) if case.benchmark else None
        found: list[Value] = []
        sizes = sizes_given(self.problem, case.axes)
        for spec in self.problem.inputs:
            value = made.get(spec.name)
            if spec.name in sizes:
                found.append(sizes[spec.name])
            elif isinstance(spec, ScalarSpec):
                source = workload.sources.get(spec.name) if workload else None
                if isinstance(source, ScalarSource):
                    value = source.value
                elif spec.name in case.scalars:
                    value = case.scalars[spec.name]
                elif isinstance(value, torch.Tensor):
                    raise _Refused("a scalar depends on data")
                elif not isinstance(value, bool | int | float):
                    value = default_scalar(spec, seed=0)
                found.append(value)
            elif isinstance(value, torch.Tensor):
                found.append(value)
            else:
                shape = shape_of(spec.shape, case.axes)
                dtype = torch_dtype(spec.dtype)
                found.append(torch.empty(shape, dtype=dtype, device=self._device))
        return found

    def _read_sizes(
        self,
        case: Case,
        shapes: Mapping[str, tuple[int, ...]],
        *,
        specs: Sequence[TensorSpec] | None = None,
        fixed: set[str] | frozenset[str] = frozenset(),
    ) -> dict[str, int]:
        """Return the case's sizes as actual shapes have them; axes in `fixed` stay."""
        variable = {axis.name for axis in self.problem.axes if isinstance(axis, VarAxis)}
        wanted = specs or [s for s in self.problem.inputs if isinstance(s, TensorSpec)]
        changes: dict[str, int] = {}
        for spec in wanted:
            shape = shapes.get(spec.name)
            if shape is None:
                continue
            if len(shape) != len(spec.shape):
                raise _Refused(f"'{spec.name}' has {len(shape)} dimensions")
            for dimension, actual in zip(spec.shape, shape, strict=True):
                if shape_of((dimension,), case.axes) == (actual,):
                    continue
                if dimension not in variable or dimension in fixed:
                    if specs is None:
                        continue  # a computed axis may follow from one that is corrected
                    raise _Refused(
                        f"'{spec.name}' has shape {list(shape)}, where the problem declares "
                        f"[{', '.join(spec.shape)}]"
                    )
                if changes.setdefault(dimension, actual) != actual:
                    raise _Refused(f"two tensors disagree on the size of '{dimension}'")
        if not changes:
            for spec in wanted:
                declared = shape_of(spec.shape, case.axes)
                if spec.name in shapes and shapes[spec.name] != declared:
                    raise _Refused(
                        f"'{spec.name}' has shape {list(shapes[spec.name])}, where the problem "
                        f"declares {list(declared)}"
                    )
            return dict(case.axes)
        try:
            bound = {n: s for n, s in case.axes.items() if n in variable}
            constants = {
                a.name: case.axes[a.name] for a in self.problem.axes if isinstance(a, ConstAxis)
            }
            return resolve(self.problem.axes, {**constants, **bound, **changes})
        except ProblemError as error:
            raise _Refused(str(error)) from None


def workload_ratio(problem: Problem, name: str, other: str) -> Fraction | None:
    """Return the ratio of one axis to another that all workloads have; None where they differ."""
    found = [workload_sizes(problem, workload) for workload in problem.workloads]
    if not all(sizes[other] for sizes in found):
        return None
    ratios = {Fraction(sizes[name], sizes[other]) for sizes in found}
    return ratios.pop() if len(ratios) == 1 else None


def own_case(problem: Problem, axes: Mapping[str, int], *, seed: int, label: str) -> Case:
    """Return a case of the problem's own values at some sizes."""
    workload = problem.workloads[0]
    scalars = {n: s.value for n, s in workload.sources.items() if isinstance(s, ScalarSource)}
    scalars |= problem.usual_state
    if problem.reference.generator is not None and any(
        isinstance(source, CustomSource) for source in workload.sources.values()
    ):
        return Case(label=label, axes=dict(axes), scalars=scalars, seed=seed, generator=True)
    return Case(
        label=label,
        axes=dict(axes),
        scalars=problem.usual_state,
        seed=seed,
        benchmark=True,
        workload=workload.id,
    )


def _needs_data() -> tuple[type[BaseException], ...]:
    """Return the errors by which fake tensors say that they have no data."""
    from torch._subclasses import fake_tensor

    return (
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedFakeTensorException,
        fake_tensor.UnsupportedOperatorException,
        NotImplementedError,
    )

"""A few plain probes, independent of the checks, that validate the zoo itself.

Each probe looks at one candidate on one device (CPU) in this process and says what it saw
wrong, or nothing. Bugs must show in some probe, twins and honest rewrites in none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from unittest import mock

import torch

from cuassay.formats.execute import LoadedReference, load_reference
from cuassay.inputs.materialise import Value, materialise
from cuassay.inputs.plan import plan_cases
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.problem import Problem
from cuassay.model.verdict import Profile

_PURPOSES = ("arguments", "small", "numeric", "hot", "shapes")
# Relative energy of the difference from the reference: both round once, so nearly equal.
_LIMITS = {
    torch.bfloat16: 3e-3,
    torch.float16: 5e-4,
    torch.float32: 2e-5,
    torch.float8_e4m3fn: 1e-2,  # a few codes may fall on the other side of a boundary
    torch.int8: 2e-3,
    torch.int64: 1e-2,
}
_names = itertools.count()


class Exited(Exception):
    """The candidate called os._exit."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Answers:
    """The cases of a problem, their inputs and the reference's answers, each made once."""

    problem: Problem
    reference: LoadedReference
    cases: tuple[Case, ...]
    cheap: bool = False
    _inputs: dict[int, list[Value]] = dataclasses.field(default_factory=dict)
    _expected: dict[int, list[torch.Tensor]] = dataclasses.field(default_factory=dict)

    def inputs(self, case: Case) -> list[Value]:
        """Return inputs of a case that nobody has seen."""
        number = self.cases.index(case)
        if number not in self._inputs:
            made = materialise(self.problem, case, device=CPU, generator=self.reference.generator)
            self._inputs[number] = list(made.values())
        return [
            value.clone() if isinstance(value, torch.Tensor) else value
            for value in self._inputs[number]
        ]

    def expected(self, case: Case) -> list[torch.Tensor]:
        """Return what the reference gives, on inputs of its own; nobody changes them."""
        number = self.cases.index(case)
        if number not in self._expected:
            answers = outputs_of(self.reference.call(*self.inputs(case)))
            self._expected[number] = [answer.clone() for answer in answers]
        return self._expected[number]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A loaded candidate beside the answers of its problem's reference."""

    call: Callable[..., object]
    answers: Answers
    tolerance: float = 1.0

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that probes use."""
        return self.answers.cases

    def reference(self, *values: Value) -> object:
        """Call the reference."""
        return self.answers.reference.call(*values)

    def inputs(self, case: Case) -> list[Value]:
        """Return fresh inputs of a case."""
        return self.answers.inputs(case)

    def expected(self, case: Case) -> list[torch.Tensor]:
        """Return what the reference gives, on inputs of its own."""
        return self.answers.expected(case)


def import_candidate(path: Path) -> ModuleType:
    """Import a candidate's file afresh, so that its caches are empty."""
    spec = importlib.util.spec_from_file_location(f"zoo_{path.stem}_{next(_names)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(problem: Problem, *, cheap: bool = False) -> Answers:
    """Return the cases of a problem; `cheap` leaves out hot ones and keeps the first axis at 3.

    It is for Triton's interpreter, which runs a kernel's programs one after another.
    """
    purposes = [purpose for purpose in _PURPOSES if not (cheap and purpose == "hot")]
    cases = [
        case
        for purpose in purposes
        for case in plan_cases(problem, purpose, profile=Profile.QUICK, root_seed=23)
        # Of a sum that takes itself back little is left: how near is near is for truth to say.
        if not any("mirror" in fill.parameters for fill in case.fills.values())
    ]
    if cheap:
        cases = [_few_rows(problem, case) for case in cases]
    return Answers(
        problem=problem, reference=load_reference(problem), cases=tuple(cases), cheap=cheap
    )


def _few_rows(problem: Problem, case: Case) -> Case:
    first = problem.var_axes()[0].name
    return dataclasses.replace(case, axes={**case.axes, first: min(case.axes[first], 3)})


def outputs_of(returned: object) -> list[torch.Tensor]:
    """Return a call's tensors as a list; anything else is not a tensor and is left out."""
    items = returned if isinstance(returned, tuple | list) else (returned,)
    return [item for item in items if isinstance(item, torch.Tensor)]


def differs(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], scale: float) -> str:
    """Say how outputs differ: count, dtype, shape, NaN and infinities, relative energy."""
    if len(got) != len(expected):
        return f"{len(got)} outputs, expected {len(expected)}"
    for position, (out, want) in enumerate(zip(got, expected, strict=True)):
        if out.dtype != want.dtype or out.shape != want.shape:
            return f"output {position} is {out.dtype} {tuple(out.shape)}"
        if torch.equal(out, want):
            continue
        wide, truth = out.double(), want.double()
        finite = torch.isfinite(truth)
        if not bool(finite.all()):
            if not torch.equal(torch.nan_to_num(wide[~finite]), torch.nan_to_num(truth[~finite])):
                return f"output {position} differs where it is not finite"
            wide, truth = wide[finite], truth[finite]
        wide, truth = wide.flatten(), truth.flatten()
        apart = wide - truth
        # Tensor.norm takes ten times as long as a product.
        error = math.sqrt(float(apart @ apart)) / max(math.sqrt(float(truth @ truth)), 1e-30)
        if not error <= _LIMITS[want.dtype] * scale:
            return f"output {position} differs by {error:.2e}"
    return ""


def numbers(bench: Bench) -> Iterator[str]:
    """Fresh inputs of every case, one after another in the same process, each run twice.

    Where that is not cheap, only small ones twice.
    """
    for case in bench.cases:
        once = bench.answers.cheap and not case.label.startswith("small")
        for _ in range(1 if once else 2):
            said = differs(
                outputs_of(bench.call(*bench.inputs(case))), bench.expected(case), bench.tolerance
            )
            if said:
                yield f"{case.label}: {said}"


def contract(bench: Bench) -> Iterator[str]:
    """Inputs changed, outputs that share memory with inputs or with each other."""
    case = _small(bench)[0]
    inputs, before = bench.inputs(case), bench.inputs(case)
    ours = outputs_of(bench.call(*inputs))
    spared = bench.inputs(case)
    theirs = outputs_of(bench.reference(*spared))
    for changed, kept, mutated in zip(inputs, before, spared, strict=True):
        if (
            isinstance(changed, torch.Tensor)
            and not _equal(changed, kept)
            and _equal(mutated, kept)
        ):
            yield "an input was changed"
    if _shared(ours, inputs) > _shared(theirs, spared):
        yield "an output shares memory with an input"
    pointers = [out.data_ptr() for out in ours]
    if len(set(pointers)) < len(pointers):
        yield "two outputs share memory"


def _equal(left: Value, right: Value) -> bool:
    assert isinstance(left, torch.Tensor)
    assert isinstance(right, torch.Tensor)
    return torch.equal(left, right)


def _shared(outputs: Sequence[torch.Tensor], inputs: Sequence[Value]) -> int:
    owned = {t.untyped_storage().data_ptr() for t in inputs if isinstance(t, torch.Tensor)}
    return sum(out.untyped_storage().data_ptr() in owned for out in outputs)


def state(bench: Bench) -> Iterator[str]:
    """Refill in place without a version bump, and hold an output across the next call."""
    first, refilled = _small(bench)[:2]
    inputs = bench.inputs(first)
    held = outputs_of(bench.call(*inputs))
    kept = [out.clone() for out in held]
    aliases = _shared(held, inputs) > 0
    for old, new in zip(inputs, bench.inputs(refilled), strict=True):
        if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
            old.data.copy_(new)  # .data: as a raw kernel would, unseen by the version counter
    second = outputs_of(bench.call(*inputs))
    said = differs(second, bench.expected(refilled), bench.tolerance)
    if said:
        yield f"after a refill: {said}"
    if not aliases and differs(held, kept, bench.tolerance):
        yield "a held output changed"


def _small(bench: Bench) -> list[Case]:
    return [case for case in bench.cases if case.label.startswith("small")]


def poison(bench: Bench) -> Iterator[str]:
    """Memory that the candidate allocates and does not clear holds NaN."""
    with _poisoned():
        for case in bench.cases:
            if case.label.startswith(("small", "shape")):
                said = differs(
                    outputs_of(bench.call(*bench.inputs(case))),
                    bench.expected(case),
                    bench.tolerance,
                )
                if said:
                    yield f"{case.label} over poisoned memory: {said}"


@contextlib.contextmanager
def _poisoned() -> Iterator[None]:
    def fill(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: object, **keywords: object) -> torch.Tensor:
            tensor = make(*args, **keywords)
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

        return made

    with (
        mock.patch.object(torch, "empty", fill(torch.empty)),
        mock.patch.object(torch, "empty_like", fill(torch.empty_like)),
    ):
        yield


PROBES = (contract, state, poison, numbers)


def faults(path: Path, known: Answers, *, tolerance: float = 1.0) -> Iterator[str]:
    """Yield what each probe says first; an exception of the candidate counts as a fault."""

    def leave(code: int) -> None:
        raise Exited(f"exit code {code}")

    for probe in PROBES:
        with mock.patch.object(os, "_exit", leave):
            try:
                loaded = Bench(call=import_candidate(path).run, answers=known, tolerance=tolerance)
                said = next(probe(loaded), "")
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
        if said:
            yield f"{probe.__name__}: {said}"

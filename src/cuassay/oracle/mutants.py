"""Judge the test before the kernel: can the chosen inputs tell broken versions apart?

The reference is broken in one place at a time (`mutants_sites`), its inputs are ignored one
at a time, and trivial answers are tried. A mutant is killed if any case's judge rejects it;
the survivors say, in words, what the inputs used could not have seen.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuassay.errors import CannotJudgeError, LiftError
from cuassay.model.problem import TensorSpec
from cuassay.model.verdict import Power
from cuassay.oracle.lift import Value, lift, run_as_written
from cuassay.oracle.mutants_sites import Mutation, Poison, Recorder, Site

Outputs: TypeAlias = tuple[torch.Tensor, ...]
Judge: TypeAlias = Callable[[Outputs], bool]
Implementation: TypeAlias = Callable[[Sequence[Value]], Outputs]
Theirs: TypeAlias = Callable[[Implementation], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A broken implementation: what is wrong with it, and what inputs would show it."""

    kind: str
    words: str
    shown_by: str
    run: Implementation
    site: Site | None = None


def power(
    fn: Callable[..., object],
    inputs_list: Sequence[Sequence[Value]],
    judges: Sequence[Judge],
    specs: Sequence[TensorSpec],
    *,
    limit: int = 40,
    theirs: Theirs | None = None,
    names: Sequence[str] = (),
) -> Power:
    """Return how many broken versions of `fn` the cases tell from the real one.

    `inputs_list` and `judges` belong together: a judge says whether outputs (one a spec, in
    the spec's dtype) are accepted as the answer to its case. `limit` caps the mutants, spread
    over kinds of fault. `theirs` says whether the benchmark's own inputs and rule accept an
    implementation; its kills are counted beside ours. `names` are the inputs' names.

    Mutants that cannot run on any case (a shape that the fault makes impossible) and faults
    in results that no output depends on are left out. Raises ReferenceError_ if the reference
    itself fails.
    """
    if not inputs_list or len(inputs_list) != len(judges):
        raise ValueError(f"{len(inputs_list)} cases and {len(judges)} judges; give one judge each")
    mutants = _spread(list(_mutants(fn, inputs_list, specs, names)), limit)
    tried, killed, theirs_killed = 0, 0, 0
    survivors = []
    for mutant in mutants:
        accepted = _accepted(mutant.run, inputs_list, judges)
        if accepted is None or (accepted and _unused(fn, mutant.site, inputs_list)):
            continue
        tried += 1
        killed += not accepted
        if accepted:
            survivors.append(f"{mutant.words}; would show with {mutant.shown_by}")
        theirs_killed += theirs is not None and not _theirs_accepts(theirs, mutant.run)
    return Power(
        mutants=tried,
        killed=killed,
        survivors=tuple(survivors),
        benchmark_killed=None if theirs is None else theirs_killed,
    )


def _accepted(
    run: Implementation, inputs_list: Sequence[Sequence[Value]], judges: Sequence[Judge]
) -> bool | None:
    """Whether every case that the mutant can run on accepts it; None where it runs on none."""
    ran = False
    for inputs, judge in zip(inputs_list, judges, strict=True):
        try:
            outputs = run(inputs)
        except (CannotJudgeError, RuntimeError, IndexError, ValueError, TypeError):
            continue
        ran = True
        if not judge(outputs):
            return False
    return True if ran else None


def _unused(
    fn: Callable[..., object], site: Site | None, inputs_list: Sequence[Sequence[Value]]
) -> bool:
    """Whether no output of any case depends on the site's result."""
    if site is None:
        return False
    for inputs in inputs_list:
        poison = Poison(site)
        try:
            outputs = lift(fn, inputs, hook=poison)
        except (CannotJudgeError, RuntimeError):
            return False
        floats = [out for out in outputs if out.is_floating_point() or out.is_complex()]
        if poison.observed or any(bool(out.isnan().any()) for out in floats):
            return False
    return True


def _theirs_accepts(theirs: Theirs, run: Implementation) -> bool:
    try:
        return theirs(run)
    except (CannotJudgeError, RuntimeError, IndexError, ValueError, TypeError):
        return False  # it does not even run on their inputs


def _spread(mutants: list[Mutant], limit: int) -> list[Mutant]:
    """Return at most `limit` mutants, taking the kinds in turn and each kind evenly."""
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        groups[mutant.kind].append(mutant)
    left = {kind: len(found) for kind, found in groups.items()}
    share = dict.fromkeys(groups, 0)
    for _ in range(min(limit, len(mutants))):
        kind = min((k for k in groups if left[k]), key=lambda k: share[k])
        share[kind] += 1
        left[kind] -= 1
    chosen = []
    for kind, found in groups.items():
        count = share[kind]
        chosen += [found[i * len(found) // count] for i in range(count)]
    return chosen


def _mutants(
    fn: Callable[..., object],
    inputs_list: Sequence[Sequence[Value]],
    specs: Sequence[TensorSpec],
    names: Sequence[str],
) -> Iterator[Mutant]:
    order = [spec.name for spec in specs]
    recorder = Recorder()
    try:
        lift(fn, inputs_list[0], hook=recorder, names=order)
        exact = True
    except LiftError:  # no trace: the reference as written is the best there is
        exact = False

    def right(inputs: Sequence[Value]) -> Outputs:
        run = lift if exact else run_as_written
        return _rounded(run(fn, inputs, names=order), specs)

    if exact:
        yield from _at_sites(fn, recorder, specs)
    yield from _at_inputs(right, inputs_list, names)
    yield from _trivial(right, inputs_list)


def _rounded(outputs: Outputs, specs: Sequence[TensorSpec]) -> Outputs:
    wanted = [getattr(torch, spec.dtype.value) for spec in specs]
    if len(wanted) != len(outputs):
        raise ValueError(f"the reference gives {len(outputs)} outputs, declared: {len(wanted)}")
    pairs = zip(outputs, wanted, strict=True)
    return tuple(out if out.dtype is dtype else out.to(dtype) for out, dtype in pairs)


def _at_sites(
    fn: Callable[..., object], recorder: Recorder, specs: Sequence[TensorSpec]
) -> Iterator[Mutant]:
    for site, fault in recorder.sites():
        yield Mutant(
            kind=fault.kind,
            words=f"{fault.words} {site.words()}",
            shown_by=fault.shown_by,
            run=functools.partial(_run_site, fn, specs, Mutation(site, fault)),
            site=site,
        )


def _run_site(
    fn: Callable[..., object],
    specs: Sequence[TensorSpec],
    mutation: Mutation,
    inputs: Sequence[Value],
) -> Outputs:
    mutation = Mutation(mutation.site, mutation.fault)  # its counters start anew
    outputs = lift(fn, inputs, hook=mutation, names=[spec.name for spec in specs])
    if not mutation.met:
        raise ValueError("the faulty operation does not run on these inputs")
    return _rounded(outputs, specs)


def _at_inputs(
    right: Implementation, inputs_list: Sequence[Sequence[Value]], names: Sequence[str]
) -> Iterator[Mutant]:
    first = inputs_list[0]
    for position, value in enumerate(first):
        name = names[position] if position < len(names) else f"number {position}"
        for words, shown_by, change in _changes(value):

            def run(
                inputs: Sequence[Value],
                position: int = position,
                change: Callable[[Value], Value] = change,
            ) -> Outputs:
                changed = list(inputs)
                changed[position] = change(changed[position])
                return right(changed)

            yield Mutant(
                kind=f"input {words.split()[0]}",
                words=f"input {name} {words}",
                shown_by=shown_by.format(name),
                run=run,
            )


def _changes(value: Value) -> Iterator[tuple[str, str, Callable[[Value], Value]]]:
    """Yield ways to ignore an input and what shows them; shape, dtype and index range stay."""
    matters = "values of {0} of the size at which it matters"
    varied = "values of {0} that differ from each other"
    if isinstance(value, bool):
        yield "negated", matters, lambda v: not v
    elif isinstance(value, float):
        yield "ten times as large", matters, lambda v: v * 10
        yield "taken as 1", "values of {0} other than 1", lambda v: 1.0
    elif isinstance(value, torch.Tensor) and value.numel() > 1:
        if value.is_floating_point() and value.dtype.itemsize > 1:
            zeros, ones = "values of {0} other than 0", "values of {0} other than 1"
            yield "taken as zeros", zeros, lambda v: torch.zeros_like(_tensor(v))
            yield "taken as ones", ones, lambda v: torch.ones_like(_tensor(v))
            yield "replaced by its mean", varied, _mean
        elif value.dtype is torch.bool:
            both = "a mask {0} with true and false"
            yield "taken as true", both, lambda v: torch.ones_like(_tensor(v))
        axis = next(i for i, size in enumerate(value.shape) if size > 1)
        order = f"rows of {{0}} (axis {axis}) that differ and an answer that depends on their order"
        yield "read one row off", order, lambda v: torch.roll(_tensor(v), 1, axis)
        yield "read at row 0 only", varied, lambda v: _row_zero(_tensor(v), axis)


def _tensor(value: Value) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return value


def _mean(value: Value) -> torch.Tensor:
    tensor = _tensor(value)
    return torch.full_like(tensor, float(tensor.double().mean()))


def _row_zero(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    return tensor.narrow(axis, 0, 1).expand_as(tensor).clone()


def _trivial(right: Implementation, inputs_list: Sequence[Sequence[Value]]) -> Iterator[Mutant]:
    def every(change: Callable[[torch.Tensor], torch.Tensor]) -> Implementation:
        return lambda inputs: tuple(change(out) for out in right(inputs))

    def given(inputs: Sequence[Value]) -> Outputs:
        return tuple(_same_shape(out, inputs) for out in right(inputs))

    def other(inputs: Sequence[Value]) -> Outputs:
        found = next((other for other in inputs_list if other is not inputs), None)
        if found is None:
            raise ValueError("there is no other case")
        outputs, wanted = right(found), right(inputs)
        if any(a.shape != b.shape for a, b in zip(outputs, wanted, strict=True)):
            raise ValueError("the other case has other shapes")
        return outputs

    table: list[tuple[str, Implementation]] = [
        ("zeros returned", every(torch.zeros_like)),
        ("a constant returned", every(_constant)),
        ("the negative returned", every(_negated)),
        ("the first row repeated", every(_first_row)),
        ("an input returned", given),
    ]
    if len(inputs_list) > 1:
        table.append(("another seed's answer returned", other))
    for words, run in table:
        yield Mutant(kind=words, words=words, shown_by="any varied input", run=run)


def _constant(out: torch.Tensor) -> torch.Tensor:
    if not out.is_floating_point() or out.numel() < 2:
        return torch.ones_like(out)  # its own mean would be the answer
    return torch.full_like(out.double(), float(out.double().mean())).to(out.dtype)


def _negated(out: torch.Tensor) -> torch.Tensor:
    return ~out if out.dtype is torch.bool else -out


def _first_row(out: torch.Tensor) -> torch.Tensor:
    axis = next((i for i, size in enumerate(out.shape) if size > 1), None)
    if axis is None:
        raise ValueError("the output has one row")
    return _row_zero(out, axis)


def _same_shape(out: torch.Tensor, inputs: Sequence[Value]) -> torch.Tensor:
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.shape == out.shape:
            return value.to(out.dtype)
    raise ValueError("no input has the output's shape")

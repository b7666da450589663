"""Judge the test before the kernel: can the chosen inputs tell broken versions apart?

The reference is broken in one place at a time (`sites`, by the table of `faults`), its inputs are
misread one at a time, and trivial and stale answers are tried (`calls`). A mutant is told apart if
any case's judge rejects it; those that survive say, in words, what the inputs used could not have
seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import torch

from cuassay.errors import CannotJudgeError, LiftError
from cuassay.model.problem import TensorSpec
from cuassay.oracle.lift.run import Value, lift, run_as_written
from cuassay.oracle.mutants.calls import answers, misread
from cuassay.oracle.mutants.faults import Fault
from cuassay.oracle.mutants.kinds import Implementation, Mutant, Outputs
from cuassay.oracle.mutants.sites import MutantSite, Mutation, NanProbe, SiteRecorder

__all__ = [
    "CANNOT_RUN",
    "Implementation",
    "Mutant",
    "Outputs",
    "Theirs",
    "mutants_of",
    "right_answer",
    "spread",
    "theirs_accepts",
    "unused",
]

Theirs: TypeAlias = Callable[[Implementation], bool]
CANNOT_RUN = (CannotJudgeError, RuntimeError, IndexError, ValueError, TypeError)
_NONE: Mapping[str, Value] = {}


def unused(
    fn: Callable[..., object], mutant: Mutant, inputs_list: Sequence[Sequence[Value]]
) -> bool:
    """Whether no output of any case depends on the result that the mutant gets wrong."""
    if mutant.site is None:
        return False
    for inputs in inputs_list:
        poison = NanProbe(mutant.site)
        try:
            outputs = lift(fn, inputs, hook=poison)
        except (CannotJudgeError, RuntimeError):
            return False
        floats = [out for out in outputs if out.is_floating_point() or out.is_complex()]
        if poison.observed or any(bool(out.isnan().any()) for out in floats):
            return False
    return True


def theirs_accepts(theirs: Theirs, mutant: Mutant) -> bool:
    """Whether the benchmark's own inputs and rule accept the mutant."""
    try:
        return theirs(mutant.run)
    except CANNOT_RUN:
        return False  # it does not even run on their inputs


def spread(mutants: Sequence[Mutant], limit: int) -> list[Mutant]:
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


def right_answer(
    fn: Callable[..., object], specs: Sequence[TensorSpec], *, exact: bool = True
) -> Implementation:
    """Return the reference in float64, rounded once to the specs' dtypes; else as written."""
    order = [spec.name for spec in specs]
    run = lift if exact else run_as_written
    return lambda inputs: _rounded(run(fn, inputs, names=order), specs)


def _rounded(outputs: Outputs, specs: Sequence[TensorSpec]) -> Outputs:
    wanted = [getattr(torch, spec.dtype.value) for spec in specs]
    if len(wanted) != len(outputs):
        raise ValueError(f"the reference gives {len(outputs)} outputs, declared: {len(wanted)}")
    pairs = zip(outputs, wanted, strict=True)
    return tuple(out if out.dtype is dtype else out.to(dtype) for out, dtype in pairs)


def mutants_of(
    fn: Callable[..., object],
    inputs_list: Sequence[Sequence[Value]],
    specs: Sequence[TensorSpec],
    *,
    names: Sequence[str] = (),
    usual: Mapping[str, Value] = _NONE,
    suspects: bool = False,
    fixed: Collection[str] = (),
) -> list[Mutant]:
    """Return every broken version of `fn`, found on the first of `inputs_list`.

    The others serve as the calls before, for answers that are left in place. With `suspects` the
    faults that a diagnosis alone asks for are among them.
    """
    order = [spec.name for spec in specs]
    recorder = SiteRecorder(suspects=suspects)
    try:
        lift(fn, inputs_list[0], hook=recorder, names=order)
        exact = True
    except LiftError:  # no trace: the reference as written is the best there is
        exact = False
    right = right_answer(fn, specs, exact=exact)

    def broken(site: MutantSite, fault: Fault) -> Implementation:
        def run(inputs: Sequence[Value]) -> Outputs:
            mutation = Mutation(site, fault)
            outputs = lift(fn, inputs, hook=mutation, names=order)
            if not mutation.met:
                raise ValueError("the faulty operation does not run on these inputs")
            return _rounded(outputs, specs)

        return run

    return [
        *(
            Mutant(f.kind, f"{f.words} {site.words()}", f.shown_by, broken(site, f), site)
            for site, f in (recorder.sites() if exact else ())
        ),
        *misread(right, inputs_list[0], names, usual, fixed=fixed, suspects=suspects),
        *answers(right, inputs_list),
    ]

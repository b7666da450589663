"""Cases that break one fact, or change slices, of the inputs that a problem's generator makes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch

from cuassay.contract.accept import own_case
from cuassay.contract.breaks import broken_cases
from cuassay.contract.facts import Evidence, Known, Related, Source, Structured
from cuassay.contract.observe import InputSample, related_inputs, value_facts
from cuassay.contract.slices import slice_cases
from cuassay.inputs.geometry import elements, with_sizes, workload_sizes
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.effort import Effort
from cuassay.model.problem import Problem, Scalar
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference
    from cuassay.judge.domain import Domain
    from cuassay.judge.truths import Truths

FACTS = "facts"  # purpose: cases that break facts of the problem's own inputs
SLICES = "slices"  # purpose: those inputs with some slices of one of them changed
_FACT_RUNS = 3
_WIDER = (8, 4)  # times the sizes of a small case, to see what it is too small to show
_WIDE_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 26}

Spend: TypeAlias = Callable[[Case, str, int], None]  # a case, which runs of it, how many
Values: TypeAlias = Mapping[str, torch.Tensor | Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenInputs:
    """Cases by purpose, and every fact of the problem that is known now.

    In `facts` each broken case stands behind the intact one; in `slices` the intact one is first.
    """

    facts: tuple[Case, ...] = ()
    slices: tuple[Case, ...] = ()
    known: tuple[Known, ...]


def broken_inputs(
    domain: Domain,
    reference: LoadedReference,
    truths: Truths,
    *,
    small: Sequence[Case],
    settle: Callable[[Case], Case | None] | None,
    profile: Profile,
    device: Device,
    seed: Callable[..., int],
    spend: Spend,
) -> BrokenInputs:
    """Plan the cases that break the problem's own inputs at the sizes of the first of `small`.

    Only of inputs that the problem's generator makes: others are drawn freely anyway. `settle`
    gives a case as the reference accepts it, None where nothing settles cases; `spend` counts the
    runs of the reference.
    """
    problem, generator = domain.problem, reference.generator
    if generator is None or not small or problem.origin == "native":
        return BrokenInputs(known=domain.facts)
    base = own_case(problem, small[0].axes, seed=seed(FACTS), label="own values")
    structures = tuple(known for known in domain.facts if isinstance(known.fact, Structured))
    facts, runs = structures, list[Values]()
    if base.generator and settle is not None and settle(base):
        runs = [
            truths.inputs(dataclasses.replace(base, seed=seed(FACTS, number)))
            for number in range(_FACT_RUNS)
        ]
        looks = [InputSample(values=run, sizes=base.axes) for run in runs]
        wider = _wider(problem, base, settle=settle, device=device, seed=seed(FACTS, "wider"))
        if wider is not None:
            looks.append(InputSample(values=truths.inputs(wider), sizes=wider.axes))
        facts = (*facts, *_own_facts(domain, base, looks, generator, device))
        del looks
    elif structures:
        base = small[0]  # of values drawn with these structures
    else:
        return BrokenInputs(known=domain.facts)
    numbers = itertools.count()

    def run(values: Values) -> Sequence[torch.Tensor]:
        spend(base, f"broken {next(numbers)}", 1)
        return truths.as_written(list(values.values()))

    broken, said = broken_cases(
        problem,
        base,
        facts,
        most=Effort(profile).broken_cases,
        inputs=truths.inputs,
        run=run,
        seed=lambda name: seed(FACTS, name),
    )
    sliced = slice_cases(
        problem,
        base,
        facts,
        most=Effort(profile).broken_slices,
        runs=runs,
        run=run,
        inputs=truths.inputs,
        seed=lambda name: seed(SLICES, name),
    )
    return BrokenInputs(
        facts=tuple(case for one in broken for case in (base, one)),
        slices=(base, *sliced) if sliced else (),
        known=(*(one for one in domain.facts if one not in structures), *said),
    )


def _own_facts(
    domain: Domain,
    base: Case,
    looks: Sequence[InputSample],
    generator: Callable[..., Mapping[str, object]],
    device: Device,
) -> Iterator[Known]:
    """Yield what holds in all runs of the generator that were looked at."""
    known = {one.fact for one in domain.facts}
    yield from (one for one in value_facts(domain.problem, looks) if one.fact not in known)
    scalars = dict(base.scalars)
    for group in related_inputs(lambda: generator({**base.axes, **scalars}, torch.device(device))):
        yield Known(
            fact=Related(inputs=tuple(sorted(group))),
            evidence=Evidence(source=Source.INPUTS, count=1),
        )


def _wider(
    problem: Problem,
    base: Case,
    *,
    settle: Callable[[Case], Case | None],
    device: Device,
    seed: int,
) -> Case | None:
    """Return the problem's own values at larger sizes than `base`, where they cost little.

    At those of its smallest workload, or some times the sizes of `base`. Constant axes may
    make every case large: one that is not twice as large as `base` costs no more than it.
    """
    listed = [workload_sizes(problem, one) for one in problem.workloads]
    least = min(listed, key=lambda sizes: elements(problem, sizes))
    grown = (
        with_sizes(
            problem,
            base.axes,
            {
                axis.name: max(size, min(times * size, least[axis.name]))
                for axis in problem.var_axes()
                if (size := base.axes[axis.name])
            },
        )
        for times in _WIDER
    )
    kind = device.kind
    most = max(_WIDE_ELEMENTS[kind], 2 * elements(problem, base.axes))
    for sizes in (least, *grown):
        if sizes == base.axes or elements(problem, sizes) > most:
            continue
        found = settle(own_case(problem, sizes, seed=seed, label="own values"))
        if found is not None:
            return found
    return None

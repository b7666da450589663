"""Which inputs a trial tries: cases are planned, settled with the reference, and kept by domain."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from cuassay.checks.numeric.relation_members import own_fill, with_parameters
from cuassay.contract.accept import own_case
from cuassay.errors import CuassayError, LiftError
from cuassay.inputs import plan
from cuassay.inputs.geometry import elements, most_rows, tensor_inputs
from cuassay.inputs.legal import torch_dtype
from cuassay.inputs.named_sizes import NamedSize, named_sizes
from cuassay.inputs.named_values import named_values
from cuassay.inputs.seeds import derive
from cuassay.judge.domain import Domain, Knowledge, Named, Quieter, Varied
from cuassay.judge.learning import Learning
from cuassay.judge.measure import selection
from cuassay.judge.plan.broken import FACTS, SLICES, Spend, broken_inputs
from cuassay.judge.plan.orders import TIES
from cuassay.judge.plan.reduced import reduced_axes
from cuassay.judge.plan.states import loop_states
from cuassay.model.axes import resolve
from cuassay.model.case import LOOPS, Case
from cuassay.model.device import Device
from cuassay.model.domain import Real
from cuassay.model.problem import STATE_SOURCE, StateSource
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference
    from cuassay.judge.memory import Memory
    from cuassay.judge.truths import Truths

# Seconds of a call on a CPU at sizes that the sources name; a history makes a dozen `beyond` one.
_CALL_S = {"shapes": 2.0, "beyond": 0.4}
# Of what a kernel executed on a CPU may compute in one call, by what its cases are for: histories
# and memory call small ones some hundred times.
_MACHINE_SHARES = {"small": 1 / 8, "arguments": 1 / 8, "numeric": 1.0, "shapes": 1.0}
_QUIETER = (1 / 16, 1 / 256)  # times the inputs, where an output decides nothing otherwise
_NEEDED = ("small", "numeric")  # purposes without which nothing is judged
_BY_SIZE = ("shapes", "growth")  # purposes whose cases are told apart by their sizes
_View: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCosts:
    """How long a call of the candidate on this CPU takes.

    At most `row_s` for each row of a tensor; where that is too much, what `executed_s` says of its
    launches counts, if they can be known. `first` is called once before sizes that the candidate
    speaks of are planned: it may name more.
    """

    row_s: float = 0.0
    executed_s: Callable[[Mapping[str, int]], float] | None = None
    first: Callable[[], object] | None = None


class Cases:
    """Plans cases for a purpose (see inputs.plan), and keeps them while what they follow from
    holds.

    Of a foreign problem the sizes that the reference accepts are learnt by experiment first. One
    that is `isolated` plans without the choice of regimes that an earlier one kept.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        reference: LoadedReference,
        memory: Memory,
        truths: Truths,
        *,
        profile: Profile,
        device: Device,
        root_seed: int,
        isolated: bool,
    ) -> None:
        self._reference = reference
        self._memory, self._truths = memory, truths
        self._profile, self._device, self._root = profile, device, root_seed
        self._isolated = isolated
        self.learning = Learning(
            knowledge,
            reference,
            memory,
            truths,
            device=device,
            plan_small=lambda: self._planned("small"),
        )
        self._plans: dict[str, tuple[_View, tuple[Case, ...]]] = {}
        self._reduced: tuple[str, ...] | None = None
        self._costs = CallCosts()

    @property
    def domain(self) -> Domain:
        """Where cases are planned now."""
        return self.learning.domain

    @property
    def reduced(self) -> tuple[str, ...]:
        """The axes that the reference was seen to reduce, where the problem states none."""
        if self._reduced is None:
            problem = self.domain.problem
            self._reduced = (
                ()
                if problem.reduction_axes
                else reduced_axes(
                    problem, self._reference, self.plan("small"), inputs=self._truths.inputs
                )
            )
        return self._reduced

    def seed(self, *path: object) -> int:
        """Return a secret seed derived from the trial's root seed and a path of names."""
        return derive(self._root, *path)

    def plan(
        self, purpose: str, *, spend: Spend = lambda case, what, runs: None
    ) -> tuple[Case, ...]:
        """Return the cases for a purpose; `spend` counts runs of the reference that plan."""
        if purpose == "known":  # kept by trials that may have known less of what is accepted
            self.learning.sizes()
            kept = map(self.learning.settle, self.domain.known)
            return tuple(case for case in kept if case is not None)
        if purpose not in LOOPS:
            self.learning.sizes()
        planned = self._plans.get(purpose)
        if planned is not None and all(  # nothing was replaced in between
            one is other or one == other
            for one, other in zip(planned[0], self._view(purpose), strict=True)
        ):
            return planned[1]
        if purpose in _CALL_S and self._costs.first is not None:
            first, self._costs = self._costs.first, dataclasses.replace(self._costs, first=None)
            first()
        if purpose in LOOPS:
            cases = tuple(
                loop_states().plan(
                    self.domain.problem,
                    purpose,
                    profile=self._profile,
                    seed=self.seed("loop", purpose),
                    device=self._device,
                )
            )
        elif purpose in (FACTS, SLICES):
            self._plans[FACTS] = self._plans[SLICES] = (self._view(purpose), ())
            broken = broken_inputs(
                self.domain,
                self._reference,
                self._truths,
                small=self.plan("small"),
                settle=None if self.learning.acceptor is None else self.learning.settle,
                profile=self._profile,
                device=self._device,
                seed=self.seed,
                spend=spend,
            )
            self.learning.take(self.domain.problem, broken.known)
            self.preset(FACTS, broken.facts)
            self.preset(SLICES, broken.slices)
            return self._plans[purpose][1]
        else:
            self._memory.room.learn_from_workload(self.domain.problem)
            accepted = self._accepted(purpose, self._planned(purpose))
            found = self._within_memory(purpose, accepted)
            cases = tuple(map(self._with_varied, found))
            if purpose == "ends":
                cases = tuple(filter(self._is_defined, cases))
            if purpose == "numeric" and self.domain.quieter is not None:
                cases = (*cases, self.domain.quieter)
        self.preset(purpose, cases)
        return cases

    def preset(self, purpose: str, cases: tuple[Case, ...]) -> None:
        """Plan these cases for a purpose, until what plans follow from changes."""
        self._plans[purpose] = (self._view(purpose), cases)

    def to_make(self, case: Case) -> Case | None:
        """Return a case of the problem's own inputs, smaller where they have no room or time.

        None where the reference takes no smaller one.
        """
        room, problem = self._memory.room, self.domain.problem
        if room.holds_inputs(problem, case):
            return case
        return room.smaller(problem, case, settle=self.learning.settle)

    def read_sources(self, texts: Iterable[str]) -> None:
        """Plan shapes beside sizes, and cases beyond values, that the candidate's sources name."""
        read = tuple(texts)
        self.learning.replan(Named(sizes=named_sizes(read), values=named_values(read)))

    def name_sizes(self, named: Iterable[NamedSize]) -> None:
        """Plan shapes beside these sizes as well, from now on."""
        self.learning.replan(Named(sizes=tuple(named)))

    def plan_by_launches(self, costs: CallCosts) -> None:
        """Plan no size that the sources name at which a call on this CPU takes long."""
        self._costs = costs

    def learn_costs(self, case: Case) -> None:
        """Count what the reference does on a small case: it tells plans what other sizes cost."""
        self._memory.room.learn_unit(
            self.domain.problem, case, lambda wanted: list(self._truths.inputs(wanted).values())
        )

    def seek_deciding_values(self) -> None:
        """Vary what is constant of the problem's own values where truth decides nothing with them.

        The mean of what a new GroupNorm returns is zero, say, and all that a kernel returns of it
        is noise. With other weights and biases it is not. What is varied is what API004 varies.
        """
        native = self.domain.problem.origin == "native"
        if native or any(map(self._decided, self.plan("numeric"))):
            return
        for case in self.plan(FACTS)[1::2]:
            if case.in_domain and self._decided(case):
                self.learning.replan(Varied(fills=case.fills))
                return

    def seek_deciding_scale(self) -> None:
        """Add a numeric case of smaller inputs where some output decides nothing otherwise.

        Weights of a plain normal distribution saturate a softmax, say, whose gradient is then
        rounding alone. Only of inputs that are drawn freely: what a generator makes belongs
        together.
        """
        numeric = self.plan("numeric")
        if self.domain.problem.origin == "native" or not numeric or numeric[0].generator:
            return
        aside = self._set_aside(numeric[0])
        for case in numeric[1:]:
            if aside:
                aside &= self._set_aside(case)
        if not aside:
            return
        for scale in _QUIETER:
            case = numeric[0]
            fills = dict(case.fills)
            for spec in tensor_inputs(self.domain.problem):
                domain = spec.domain
                if isinstance(domain, Real) and domain.high is None and domain.low in (None, 0.0):
                    fills[spec.name] = with_parameters(own_fill(case, spec), {"scale_by": scale})
            label = f"{case.label}, {scale:g} times as large"
            accepted = self.learning.settle(dataclasses.replace(case, label=label, fills=fills))
            if accepted is not None and not aside & self._set_aside(accepted):
                self.learning.replan(Quieter(case=accepted))
                return

    def _view(self, purpose: str) -> _View:
        """Return what the cases for a purpose follow from: what they are kept by."""
        domain = self.domain
        if purpose in LOOPS:
            return (domain.problem,)
        of_all: _View = (domain.problem, self.learning.rounds, domain.own_alone)
        if purpose in (FACTS, SLICES):  # what is varied was found among them
            return of_all
        view = (*of_all, domain.varied)
        if purpose in _CALL_S:
            return (*view, domain.named)
        return (*view, domain.quieter, domain.values) if purpose == "numeric" else view

    def _planned(self, purpose: str) -> tuple[Case, ...]:
        domain = self.domain
        if domain.own_alone:
            return ()
        return plan.plan_cases(
            domain.problem,
            purpose,
            profile=self._profile,
            root_seed=self._root,
            device=self._device,
            first=self._first() if purpose == "numeric" else (),
            reduced=self.reduced if purpose in ("hot", "growth") else (),
            named=domain.named if purpose in _CALL_S else (),
            values=domain.values if purpose == "numeric" else (),
            gates=self._gates,
            memory_gib=self._memory.gib,
            is_affordable=partial(self._is_affordable, purpose),
        )

    def _first(self) -> tuple[str, ...]:
        """Return the regimes that this problem needs most, as far as they are known.

        Those that an earlier trial chose, and equal elements where the reference orders them.
        """
        problem = self.domain.problem
        known = None if self._isolated else selection.read_selection(problem)
        ties: tuple[str, ...] = ()
        if small := self.plan("small"):
            with suppress(CuassayError):  # what a reference refuses is found out elsewhere
                ties = TIES if self._truths.look(small[0]).orders else ()
        return (*(known.regimes if known is not None else ()), *ties)

    def _gates(self, case: Case) -> Sequence[tuple[float, float]]:
        """Return how far the reference's gates are closed in a case that it takes."""
        with suppress(CuassayError):  # what a reference refuses is found out elsewhere
            return self._truths.look(case).gates
        return ()

    def _is_affordable(self, purpose: str, sizes: Mapping[str, int]) -> bool:
        problem, costs = self.domain.problem, self._costs
        share = _MACHINE_SHARES.get(purpose)
        if not self._memory.room.is_affordable(problem, sizes, share=share):
            return False
        most_s = _CALL_S.get(purpose, math.inf)
        if costs.row_s * most_rows(problem, sizes) <= most_s:
            return True
        return costs.executed_s is not None and costs.executed_s(sizes) <= most_s

    def _accepted(self, purpose: str, planned: tuple[Case, ...]) -> tuple[Case, ...]:
        """Return planned cases as the reference accepts them.

        Where it refuses values of ours, the problem's own at the same sizes take their place;
        where it refuses every size of ours, its workloads do, the smallest first.
        """
        acceptor = self.learning.acceptor
        if acceptor is None:
            return planned
        if purpose == "arguments":  # pairs: a base, and the same with one argument moved
            settled = [acceptor.settle(case) for case in planned]
            pairs = zip(settled[::2], settled[1::2], strict=False)
            return tuple(case for pair in pairs if None not in pair for case in pair if case)
        found: list[Case] = []
        for case in planned:
            settled_case = acceptor.settle(case)
            if settled_case is None and not case.benchmark and purpose in _NEEDED:
                own = own_case(self.domain.problem, case.axes, seed=case.seed, label=case.label)
                settled_case = acceptor.settle(own)
            if settled_case is not None:
                found.append(settled_case)
        if not found and purpose in _NEEDED:
            # Return cases of the problem's own workloads, the smallest first.
            problem = self.domain.problem
            workloads = sorted(
                problem.workloads, key=lambda w: elements(problem, resolve(problem.axes, w.axes))
            )
            count = {"small": 1}.get(purpose, 2)
            return tuple(
                Case(
                    label=f"{purpose}: workload {workload.id}",
                    axes=resolve(problem.axes, workload.axes),
                    scalars=problem.usual_state,
                    seed=self.seed("own", purpose, workload.id),
                    benchmark=True,
                    workload=workload.id,
                )
                for workload in workloads[:count]
            )
        return tuple(found)

    def _within_memory(self, purpose: str, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        """Return the cases that have room in the planned memory, the others made smaller.

        Of those that a check cannot do without, the smallest stays whatever it needs.
        """
        memory, problem = self._memory, self.domain.problem
        found: list[Case] = []
        large: list[Case] = []  # as small as they can be
        pairs = purpose == "arguments"  # a base and the same with one argument moved
        for number, case in enumerate(cases):
            if memory.holds(case):
                found.append(case)
                continue
            if purpose in _BY_SIZE:
                continue  # a smaller one says nothing new
            instead = memory.room.smaller(
                problem, case, keep=self._lengthened(purpose, case), settle=self.learning.settle
            )
            if instead is not None and memory.holds(instead):
                found.append(instead)
                if case.benchmark:
                    memory.room.note(problem, case, instead)
            elif pairs:
                return tuple(found[: number - number % 2])
            else:
                large.append(instead or case)
        if found or not large or purpose not in (*_NEEDED, "benchmark"):
            return tuple(found)
        least = min(large, key=lambda case: memory.room.need(problem, case).total)
        memory.take_all_that_needs(least)
        return (least,)

    def _lengthened(self, purpose: str, case: Case) -> tuple[str, ...]:
        """Return the axis that a case was made to lengthen: it is not shortened again."""
        if purpose != "hot":
            return ()
        axes = self.domain.problem.var_axes()
        return (max(axes, key=lambda axis: case.axes[axis.name]).name,)

    def _with_varied(self, case: Case) -> Case:
        """Return a case with the problem's own values varied, where they have to be."""
        domain = self.domain
        if not domain.varied or case.benchmark or not case.generator:
            return case
        own = case.scalars.get(STATE_SOURCE, StateSource.GIVEN.value) != StateSource.GIVEN.value
        # A module has its own state.
        taken = {*case.fills, *(domain.problem.state if own else ())}
        free = {name: fill for name, fill in domain.varied.items() if name not in taken}
        return dataclasses.replace(case, fills={**case.fills, **free})

    def _set_aside(self, case: Case) -> frozenset[str]:
        """Return the outputs that truth decides nothing about on a case; none that is refused."""
        try:
            outputs = self._truths.rough(case).outputs
        except CuassayError:
            return frozenset()
        return frozenset(output.name for output in outputs if output.ill_conditioned)

    def _is_defined(self, case: Case) -> bool:
        """Whether the reference makes finite numbers alone: else kernels may differ freely."""
        try:
            try:
                values = self._truths.exact(case)
            except LiftError:
                values = self._truths.as_written(list(self._truths.inputs(case).values()))
        except CuassayError:
            return False
        for spec, value in zip(self.domain.problem.outputs, values, strict=True):
            if spec.dtype.is_liftable:
                value = value.to(torch_dtype(spec.dtype))
            # torch cannot ask it of floats of 8 bits; they saturate, or their NaNs are compared.
            floating = value.is_floating_point() and value.dtype.itemsize > 1
            if floating and not bool(value.isfinite().all()):
                return False
        return True

    def _decided(self, case: Case) -> bool:
        try:
            return not self._truths.rough(case).ill_conditioned
        except CuassayError:
            return True  # what a reference refuses is found out elsewhere

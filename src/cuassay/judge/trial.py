"""What checks see of the judge: inputs, truth, comparison, secret seeds, planned cases."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import torch

from cuassay.checks.judgement import is_wrong
from cuassay.checks.numeric.relation_members import own_fill, with_parameters
from cuassay.contract.accept import Acceptor, own_case
from cuassay.contract.breaks import broken_cases, stated_facts
from cuassay.contract.facts import (
    Evidence,
    Known,
    Related,
    SizeFact,
    Source,
    StepOfSize,
    Structured,
    Tried,
)
from cuassay.contract.memory import GIB, Room
from cuassay.contract.observe import Look, related_inputs, value_facts, without_contradicted
from cuassay.contract.sizes import learn_sizes
from cuassay.contract.slices import slice_cases
from cuassay.contract.uses import with_uses
from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.inputs import plan
from cuassay.inputs.budget import booked_bytes, budget_for, planned_memory_gib, room_bytes
from cuassay.inputs.case_inputs import case_inputs
from cuassay.inputs.geometry import (
    all_bytes,
    elements,
    most_rows,
    tensor_inputs,
    with_sizes,
    workload_sizes,
)
from cuassay.inputs.named_sizes import NamedSize, named_sizes
from cuassay.inputs.seeds import derive
from cuassay.judge.decide import gradients
from cuassay.judge.decide.structure import matched
from cuassay.judge.measure import selection
from cuassay.judge.plan.allowance import Allowance
from cuassay.judge.plan.reduced import reduced_axes
from cuassay.judge.run.bookings import Booking
from cuassay.judge.run.memory import Cap, available_bytes, host_plan_gib, total_bytes
from cuassay.judge.timeline import Timeline
from cuassay.model import serial
from cuassay.model.axes import resolve
from cuassay.model.case import LOOPS, Case, Fill
from cuassay.model.domain import Real
from cuassay.model.precision import Precision
from cuassay.model.problem import (
    STATE_SOURCE,
    Problem,
    Scalar,
    StateSource,
    TensorSpec,
    VarAxis,
)
from cuassay.model.scenario import Call
from cuassay.model.steps import Backward, CallInto, CompiledCall, StreamCall, Upstream
from cuassay.model.trace import ResultItem
from cuassay.model.verdict import Lane, Profile
from cuassay.oracle.bits import raw_bytes
from cuassay.oracle.compare.outputs import Comparison, compare, measure
from cuassay.oracle.grade import least_family
from cuassay.oracle.known_bits import KnownAnswers
from cuassay.oracle.lift.magnitudes import magnitudes
from cuassay.oracle.lift.run import lift, run_as_written
from cuassay.oracle.truth.make import Truth, make_truth
from cuassay.oracle.truth.memory import truth_bytes
from cuassay.oracle.truth.own_error import OwnError, own_errors
from cuassay.oracle.truth.precision import family_of
from cuassay.sandbox.host.turns import Once

if TYPE_CHECKING:
    from cuassay.checks.base import Machine, Run
    from cuassay.checks.judgement import Judgement
    from cuassay.formats.execute import LoadedReference
    from cuassay.model.scenario import Scenario

T = TypeVar("T")
_Answered: TypeAlias = tuple[str, tuple[ResultItem, ...]]  # of which values, and what
Truths = OrderedDict[str, Truth]  # by the case's values as JSON, its seed included
FACTS = "facts"  # purpose: cases that break facts of the problem's own inputs
SLICES = "slices"  # purpose: those inputs with some slices of one of them changed
_MOST_SLICES = {Profile.QUICK: 6, Profile.STANDARD: 32, Profile.DEEP: 128}
_MOST_BROKEN = {Profile.QUICK: 6, Profile.STANDARD: 16, Profile.DEEP: 64}
_FACT_RUNS = 3
_WIDER = (8, 4)  # times the sizes of a small case, to see what it is too small to show
_WIDE_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 26}
_ROUGH_DRAWS = 2
_ROUGH_FAILURES = 4  # more than rough truth did not explain: a kernel that full truth is made for
# Seconds of a call on a CPU at sizes that the sources name; a history makes a dozen `beyond` one.
_CALL_S = {"shapes": 2.0, "beyond": 0.4}
# Of what a kernel executed on a CPU may compute in one call, by what its cases are for: histories
# and memory call small ones some hundred times.
_MACHINE_SHARES = {"small": 1 / 8, "arguments": 1 / 8, "numeric": 1.0, "shapes": 1.0}
_BEYOND_OWN = 3  # more answers beyond the reference's own error than within it: no more are asked
_RAISED = (2, 4, 8)  # by which the least size of an axis is raised where it decides nothing
_QUIETER = (1 / 16, 1 / 256)  # times the inputs, where an output decides nothing otherwise
_JUDGED_RUNS = 3  # of the reference, on a case that a scenario judges, its own errors included
_HEAVY_S = 1.0  # of a truth, by count
_CALLS = (Call, CallInto, StreamCall, CompiledCall, Backward)
_NEEDED = ("small", "numeric")  # purposes without which nothing is judged
_BY_SIZE = ("shapes", "growth")  # purposes whose cases are told apart by their sizes
_LIGHT = 4  # of the planned memory one part in four is taken by a scenario beside another
_FILLED = 4  # times its inputs and outputs a case takes in the judge at least
_ALWAYS_KEPT = 8  # of the planned memory one part in so many holds truths whatever a case needs
_CACHE_SHARE = 4  # of the planned GPU memory one part in four holds truths made before
_OWN_BYTES = 1 << 28  # of the reference's own errors that are kept
_NEAR_BYTES = 1 << 27  # of answers within them, by a side
_CACHE_BYTES = {"cpu": 2 << 30, "cuda": 16 << 30}
_TEXTS = 256  # cases whose values are known as text


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Explained:
    """How an answer was seen to be right.

    `share` is the part of the reference's own error that it uses; None where rough truth showed
    it, with the `comparisons`.
    """

    share: float | None = None
    comparisons: tuple[Comparison, ...] = ()


class JudgeTrial:
    """The judge's side of one candidate's trial on one problem.

    `truth_s` and `compare_s` add up the seconds spent in the oracle. `truths` are those that a
    trial of another candidate of the same problem on the same device made: they are shared.
    An `isolated` trial plans without the choice of regimes that an earlier one kept.
    """

    def __init__(
        self,
        problem: Problem,
        reference: LoadedReference,
        *,
        profile: Profile,
        device: str,
        root_seed: int,
        truths: Truths | None = None,
        isolated: bool = False,
        gpu_memory_gib: float | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.timeline = timeline or Timeline()
        self._facts: tuple[Known, ...] = stated_facts(problem)
        self._uses_known = problem.origin == "native"  # what its author says of inputs holds
        self._problem, self._reference = problem, reference
        self._isolated = isolated
        self._profile, self._device, self._root = profile, device, root_seed
        self._truths: Truths = OrderedDict() if truths is None else truths
        # Those of the sides beside as well: which of them a side knows decides what it asks for.
        self._made_by_all: weakref.WeakValueDictionary[str, Truth] = weakref.WeakValueDictionary()
        self._kept_by_all = [self._truths]
        self._owns: OrderedDict[str, tuple[OwnError, ...]] = OrderedDict()  # of all sides
        gpu = device.startswith("cuda")
        self._memory_gib = planned_memory_gib(profile, gpu_memory_gib) if gpu else None
        limit_gib = self._memory_gib if gpu else host_plan_gib(profile)
        work_limit = budget_for(profile, device=device).work
        self._room = Room(reference, device=device, limit_gib=limit_gib, work_limit=work_limit)
        self._allowance = Allowance(self._room.check_s)
        self._cut_short: set[str] = set()  # codes of checks that had no time for every scenario
        self._never_judged: dict[str, str] = {}  # outputs whose numbers decided nothing, and why
        self._cap = Cap(device, self._room.bytes)
        self._booking = Booking(None)
        self._end_processes: Callable[[], bool] = lambda: False  # see `end_idle`
        self._needs_all = False
        self._plans: dict[str, tuple[Case, ...]] = {}
        self._acceptor: Acceptor | None = None
        self._own_alone = False
        self._varied: Mapping[str, Fill] = {}  # of the problem's own values, so that truth decides
        self._built_condition, self._listed_condition = "", ""
        self._deterministic: bool | None = None
        self._reduced: tuple[str, ...] | None = None
        self._machine: Machine | None = None
        self._named: list[NamedSize] = []  # of all sides
        self._row_s = 0.0
        self._executed_s: Callable[[Mapping[str, int]], float] | None = None
        self.name_by_launches = Once(lambda: None)  # see `plan_by_launches`
        self.truth_s = 0.0
        self.compare_s = 0.0
        self.kinds: dict[str, str] = {}
        self._lowered: dict[str, Case] = {}
        self._texts: dict[int, tuple[Case, str]] = {}
        # The run that was looked at last, and its answers that were right.
        self._right: tuple[weakref.ref[Run], dict[_Answered, _Explained]] | None = None
        self._near = KnownAnswers(_NEAR_BYTES)  # answers within the reference's own error
        self._unexplained = 0  # answers that rough truth did not show to be right
        self._beyond_own = 0  # answers beyond the reference's own error, less those within it
        self.graded = False  # a failure of the candidate was held against every family

    @property
    def problem(self) -> Problem:
        """The operator."""
        return self._problem

    @property
    def profile(self) -> Profile:
        """How much to try."""
        return self._profile

    @property
    def device(self) -> str:
        """cpu or cuda."""
        return self._device

    @property
    def reference(self) -> LoadedReference:
        """The problem's reference and generator as callables."""
        return self._reference

    @property
    def isolated(self) -> bool:
        """Whether nothing but the files and the seed may decide, as in an audit."""
        return self._isolated

    @property
    def deterministic_reference(self) -> bool:
        """Whether the reference gave the same bits twice on the same inputs."""
        if self._deterministic is None:
            cases = self.cases("small") or self.cases("numeric")
            self._deterministic = self.repeats(cases[0])
        return self._deterministic

    @property
    def reduced(self) -> tuple[str, ...]:
        """The axes that the reference was seen to reduce, where the problem states none."""
        if self._reduced is None:
            self._reduced = reduced_axes(self)
        return self._reduced

    def repeats(self, case: Case) -> bool:
        """Whether the reference gives the same bits twice on the inputs of `case`."""
        values = list(self.inputs(case).values())
        twice = [self.as_written(values) for _ in range(2)]
        return all(_same_bits(*pair) for pair in zip(*twice, strict=True))

    @property
    def machine(self) -> Machine | None:
        """The PTX machine of this trial; None where it has none."""
        return self._machine

    def book(self, booking: Booking) -> None:
        """Book what this trial plans to take of the GPU, and wait until that is free.

        Where memory is not limited that is what the largest workload needs.
        """
        self._booking = booking
        if not self._device.startswith("cuda"):
            return
        if self._memory_gib is not None:
            booking.take(booked_bytes(room_bytes(self._memory_gib)))
            return
        workloads = [resolve(self._problem.axes, w.axes) for w in self._problem.workloads]
        largest = max(workloads, key=lambda sizes: elements(self._problem, sizes))
        case = own_case(self._problem, largest, seed=0, label="the largest workload")
        booking.take(booked_bytes(self._room.need(self._problem, case).total))

    @property
    def is_large(self) -> bool:
        """Whether its smallest case needs more memory than was planned: one process at a time."""
        room = self._room.bytes
        return room is not None and self._booking.bytes > booked_bytes(room)

    def end_idle_by(self, end_processes: Callable[[], bool]) -> None:
        """Learn how to end this trial's own processes while they are idle (see `end_idle`)."""
        self._end_processes = end_processes

    def end_idle(self) -> bool:
        """End this trial's idle processes where its cases fill a GPU; return whether any ended.

        What a kernel's process keeps for its next call is as much as its inputs, and more.
        """
        return self.is_large and self._end_processes()

    @property
    def is_alone(self) -> bool:
        """Whether no other trial books the GPU now."""
        return self._booking.is_alone

    def use_machine(self, machine: Machine) -> None:
        """Let checks execute recorded launches in `machine`."""
        self._machine = machine

    def concurrent(self) -> JudgeTrial:
        """Return the same trial for checks that run at the same time as those of this one.

        What it learns of the candidate stays apart, so that what either makes of an answer does
        not depend on who was first. `take` adds it up. A truth that both ask for is made once.
        """
        made = copy.copy(self)
        made._truths = self._truths.copy()
        self._kept_by_all.append(made._truths)
        made.kinds, made._lowered, made._right = {}, {}, None
        made.truth_s = made.compare_s = 0.0
        made._near = KnownAnswers(_NEAR_BYTES)
        made._allowance, made._cut_short = Allowance(self._room.check_s), set()
        made._never_judged = {}
        return made

    def take(self, beside: JudgeTrial) -> None:
        """Add what the checks beside those of this trial made and learnt."""
        self.truth_s += beside.truth_s
        self.compare_s += beside.compare_s
        self.kinds |= beside.kinds
        self._cut_short |= beside._cut_short
        self._never_judged |= beside._never_judged
        self._lowered = beside._lowered | self._lowered
        self._kept_by_all[:] = [one for one in self._kept_by_all if one is not beside._truths]

    def is_light(self, cases: Sequence[Case]) -> bool:
        """Whether a scenario leaves most of the planned memory to one at the same time.

        Inputs and answers of all its cases are held; truth is made of one after another. Where
        memory is not limited the plan is what the GPU has.
        """
        room = self._room.bytes
        if room is None and self._device.startswith("cuda"):
            room = total_bytes(self._device)
        if room is None:
            return True
        if any(case.state is not None for case in cases):
            return False
        share = _LIGHT * len(cases)
        try:
            needs = [
                self._room.need(self._problem, case)
                for case in cases
                if not self._room.is_small(self._problem, case, share=share, of_bytes=room)
            ]
        except CuassayError:
            return False
        taken = sum(need.kept for need in needs)
        taken += max((need.judge + need.worker - need.kept for need in needs), default=0)
        return share * taken <= room * len(needs)

    def begin_check(self, worth: float) -> Allowance:
        """Return what a check may take from now on: `worth` times as much as any other."""
        self._allowance = Allowance(worth * self._room.check_s)
        return self._allowance

    def scenario_s(self, scenario: Scenario) -> float:
        """Return the seconds that a scenario and its judgment take, by count."""
        runs_s = [self._room.run_s(self._problem, case) for case in scenario.cases]
        calls = sum(isinstance(step, _CALLS) for step in scenario.steps)
        return _JUDGED_RUNS * sum(runs_s) + calls * max(runs_s, default=0.0)

    def note_never_judged(self, outputs: Mapping[str, str]) -> None:
        """Remember outputs whose numbers decided nothing in any numeric case, and why."""
        self._never_judged |= outputs

    def cut_short(self, code: str) -> None:
        """Remember a check that has no time for all its scenarios."""
        self._cut_short.add(code)

    def runs_within(self, case: Case) -> int | None:
        """Return how many runs of the reference on a case one check may take; None: any."""
        run_s = self._room.run_s(self._problem, case)
        return None if not run_s else int(self._room.check_s / run_s)

    def _values(self, case: Case) -> str:
        """Return what decides a case's values as text: cases that differ in words share truth.

        Every look at an answer asks for it, and a case that lists its values is long.
        """
        known = self._texts.get(id(case))
        if known is None:
            plain = dataclasses.replace(case, label="", in_domain=True, fact="", related=())
            if len(self._texts) >= _TEXTS:
                self._texts.clear()
            # With the case, so that its id stays its own.
            known = self._texts[id(case)] = (case, serial.dumps(plain))
        return known[1]

    def _spend(self, case: Case, what: str, runs: int) -> None:
        seconds = runs * self._room.run_s(self._problem, case)
        if seconds:
            self._allowance.spend(f"{what} {self._values(case)}", seconds)

    def learn_unit(self, case: Case) -> None:
        """Count what the reference does on a small case, from which plans tell what others cost."""
        self._room.learn_unit(
            self._problem, case, lambda wanted: list(self.inputs(wanted).values())
        )

    def read_sources(self, texts: Iterable[str]) -> None:
        """Plan shapes beside the sizes that the candidate's sources speak of, from now on."""
        self.name_sizes(named_sizes(texts))

    def name_sizes(self, named: Iterable[NamedSize]) -> None:
        """Plan shapes beside these sizes as well, from now on."""
        self._named[:] = dict.fromkeys((*self._named, *named))
        for purpose in _CALL_S:
            self._plans.pop(purpose, None)

    def plan_by_launches(
        self,
        *,
        row_s: float = 0.0,
        executed_s: Callable[[Mapping[str, int]], float] | None = None,
        first: Callable[[], object] = lambda: None,
    ) -> None:
        """Plan no size that the sources name at which a call on this CPU takes long.

        A call takes at most `row_s` for each row of a tensor; where that is too much, what
        `executed_s` says of its launches counts, if they can be known. `first` is called before
        such sizes are planned, once for all sides: it may name more.
        """
        self._row_s, self._executed_s = row_s, executed_s
        self.name_by_launches = Once(first)

    def seed(self, *path: object) -> int:
        """Return a secret seed derived from the trial's root seed and a path of names."""
        return derive(self._root, *path)

    def cases(self, purpose: str) -> tuple[Case, ...]:
        """Return the planned cases for a purpose (see inputs.plan)."""
        if purpose in LOOPS:
            return self._states(purpose)
        if purpose in (FACTS, SLICES):
            self._break_inputs()
            return self._plans[purpose]
        if purpose == "known":  # kept by trials that may have known less of what is accepted
            self._learn()
            kept = map(self._settle, self._plans.get(purpose, ()))
            return tuple(case for case in kept if case is not None)
        if purpose not in self._plans:
            self._learn()
            if purpose in _CALL_S:
                self.name_by_launches()
            self._room.learn_from_workload(self._problem)
            accepted = self._accepted(purpose, self._planned(purpose))
            found = self._within_memory(purpose, accepted)
            self._plans[purpose] = tuple(map(self._with_varied, found))
        return self._plans[purpose]

    def _planned(self, purpose: str) -> tuple[Case, ...]:
        if self._own_alone:
            return ()
        return plan.plan_cases(
            self._problem,
            purpose,
            profile=self._profile,
            root_seed=self._root,
            device=self._device,
            first=self._regimes() if purpose == "numeric" else (),
            reduced=self.reduced if purpose in ("hot", "growth") else (),
            named=tuple(self._named) if purpose in _CALL_S else (),
            memory_gib=self._memory_gib,
            is_affordable=partial(self._is_affordable, purpose),
        )

    def _is_affordable(self, purpose: str, sizes: Mapping[str, int]) -> bool:
        share = _MACHINE_SHARES.get(purpose)
        if not self._room.is_affordable(self._problem, sizes, share=share):
            return False
        most_s = _CALL_S.get(purpose, math.inf)
        if self._row_s * most_rows(self._problem, sizes) <= most_s:
            return True
        return self._executed_s is not None and self._executed_s(sizes) <= most_s

    def _learn(self) -> None:
        """Find out by experiment which sizes the reference of a foreign problem accepts.

        Small sizes of ours are tried first: where the reference takes them nothing else has to
        be learnt.
        """
        if self._acceptor is not None or self._problem.origin == "native":
            return
        self.learn_uses()
        self._acceptor = Acceptor(
            self._problem, self._reference, device=self._device, relieve=self._relieve_for
        )
        self._learn_sizes(self._acceptor)

    def _learn_sizes(self, acceptor: Acceptor) -> None:
        wished = [case for case in self._planned("small") if not case.benchmark]
        if wished and all(acceptor.settle(case) is not None for case in wished):
            return
        learnt, sizes = learn_sizes(acceptor)
        self._facts = (*self._facts, *sizes)
        self._take(learnt)
        self._leave_undecided_sizes()

    def plan_with_data(self) -> bool:
        """Plan again, by runs with data, where runs without accepted what the reference refuses.

        Returns whether that is new.
        """
        if self._acceptor is None or not self._acceptor.ask_with_data():
            return False
        for purpose in self._plans.keys() - {"known"}:
            del self._plans[purpose]
        self._facts = tuple(
            known
            for known in self._facts
            if not isinstance(known.fact, SizeFact) or known.evidence.source is not Source.TRIALS
        )
        self._learn_sizes(self._acceptor)
        return True

    def _take(self, problem: Problem) -> None:
        self._problem = problem
        if self._acceptor is not None:
            self._acceptor.problem = problem

    def _leave_undecided_sizes(self) -> None:
        """Raise the least size of axes where the small cases would decide nothing.

        A reference accepts groups of one channel, say, though what it normalises there is zero
        divided by zero. Of the axes that have a step, the first whose double helps is taken.
        """
        for factor in _RAISED if self._undecided(self._problem) else ():
            for known in self._facts:
                if not isinstance(known.fact, StepOfSize):
                    continue
                least = factor * known.fact.minimum
                axes = tuple(
                    dataclasses.replace(axis, minimum=least)
                    if isinstance(axis, VarAxis) and axis.name == known.fact.axis
                    else axis
                    for axis in self._problem.axes
                )
                raised = dataclasses.replace(self._problem, axes=axes)
                if not self._undecided(raised):
                    fact = dataclasses.replace(known.fact, minimum=least)
                    text = "below it trusted implementations disagree by as much as they return"
                    evidence = Evidence(source=Source.TRIALS, count=1, text=text)
                    said = Known(fact=fact, evidence=evidence)
                    self._facts = tuple(said if one is known else one for one in self._facts)
                    self._take(raised)
                    return

    def _undecided(self, problem: Problem) -> bool:
        """Whether truth of the first small case of a problem is ill-conditioned."""
        before = self._problem
        self._take(problem)
        try:
            cases = [self._settle(case) for case in self._planned("small")[:1]]
            return any(
                case is not None and bool(self.rough(case).ill_conditioned) for case in cases
            )
        except CuassayError:
            return False  # what a reference refuses is found out elsewhere
        finally:
            self._take(before)

    def _accepted(self, purpose: str, planned: tuple[Case, ...]) -> tuple[Case, ...]:
        """Return planned cases as the reference accepts them.

        Where it refuses values of ours, the problem's own at the same sizes take their place;
        where it refuses every size of ours, its workloads do, the smallest first.
        """
        acceptor = self._acceptor
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
                own = own_case(self._problem, case.axes, seed=case.seed, label=case.label)
                settled_case = acceptor.settle(own)
            if settled_case is not None:
                found.append(settled_case)
        if not found and purpose in _NEEDED:
            return self._own(purpose)
        return tuple(found)

    def seek_deciding_values(self) -> None:
        """Vary what is constant of the problem's own values where truth decides nothing with them.

        The mean of what a new GroupNorm returns is zero, say, and all that a kernel returns of it
        is noise. With other weights and biases it is not. What is varied is what API004 varies.
        """
        if self._problem.origin == "native" or any(map(self._decided, self.cases("numeric"))):
            return
        broken = self.cases(FACTS)[1::2]
        for case in broken:
            if case.in_domain and self._decided(case):
                self._varied = case.fills
                kept = {name: self._plans[name] for name in (FACTS, SLICES)}
                self._plans.clear()
                self._plans |= kept
                return

    def seek_deciding_scale(self) -> None:
        """Add a numeric case of smaller inputs where some output decides nothing otherwise.

        Weights of a plain normal distribution saturate a softmax, say, whose gradient is then
        rounding alone. Only of inputs that are drawn freely: what a generator makes belongs
        together.
        """
        numeric = self.cases("numeric")
        if self._problem.origin == "native" or not numeric or numeric[0].generator:
            return
        aside = self._set_aside(numeric[0])
        for case in numeric[1:]:
            if aside:
                aside &= self._set_aside(case)
        if not aside:
            return
        for scale in _QUIETER:
            quiet = self._scaled(numeric[0], scale)
            accepted = self._acceptor.settle(quiet) if self._acceptor is not None else quiet
            if accepted is not None and not aside & self._set_aside(accepted):
                self._plans["numeric"] = (*numeric, accepted)
                return

    def _scaled(self, case: Case, scale: float) -> Case:
        """Return a case with every floating input that no bound keeps up multiplied by `scale`."""
        fills = dict(case.fills)
        for spec in tensor_inputs(self._problem):
            domain = spec.domain
            if isinstance(domain, Real) and domain.high is None and domain.low in (None, 0.0):
                fills[spec.name] = with_parameters(own_fill(case, spec), {"scale_by": scale})
        label = f"{case.label}, {scale:g} times as large"
        return dataclasses.replace(case, label=label, fills=fills)

    def _set_aside(self, case: Case) -> frozenset[str]:
        """Return the outputs that truth decides nothing about on a case; none that is refused."""
        try:
            outputs = self.rough(case).outputs
        except CuassayError:
            return frozenset()
        return frozenset(output.name for output in outputs if output.ill_conditioned)

    def _decided(self, case: Case) -> bool:
        try:
            return not self.rough(case).ill_conditioned
        except CuassayError:
            return True  # what a reference refuses is found out elsewhere

    def _with_varied(self, case: Case) -> Case:
        """Return a case with the problem's own values varied, where they have to be."""
        if not self._varied or case.benchmark or not case.generator:
            return case
        own = case.scalars.get(STATE_SOURCE, StateSource.GIVEN.value) != StateSource.GIVEN.value
        taken = {*case.fills, *(self._problem.state if own else ())}  # a module has its own state
        free = {name: fill for name, fill in self._varied.items() if name not in taken}
        return dataclasses.replace(case, fills={**case.fills, **free})

    def _break_inputs(self) -> None:
        """Plan the cases that break one fact, or change slices, of the problem's own inputs.

        Each stands behind the intact one. Only of inputs that the problem's generator makes:
        others are drawn freely anyway.
        """
        if FACTS in self._plans:
            return
        self._plans[FACTS] = self._plans[SLICES] = ()
        small = self.cases("small")
        generator = self._reference.generator
        if generator is None or not small or self._problem.origin == "native":
            return
        base = own_case(self._problem, small[0].axes, seed=self.seed(FACTS), label="own values")
        structures = tuple(known for known in self._facts if isinstance(known.fact, Structured))
        facts, runs = structures, list[Mapping[str, torch.Tensor | Scalar]]()
        if base.generator and self._acceptor is not None and self._acceptor.settle(base):
            runs = [
                self.inputs(dataclasses.replace(base, seed=self.seed(FACTS, number)))
                for number in range(_FACT_RUNS)
            ]
            facts = (*facts, *self._own_facts(base, runs, generator))
        elif structures:
            base = small[0]  # of values drawn with these structures
        else:
            return
        numbers = itertools.count()

        def run(values: Mapping[str, torch.Tensor | Scalar]) -> Sequence[torch.Tensor]:
            self._spend(base, f"broken {next(numbers)}", 1)
            return self.as_written(list(values.values()))

        found, said = broken_cases(
            self._problem,
            base,
            facts,
            most=_MOST_BROKEN[self._profile],
            inputs=self.inputs,
            run=run,
            seed=lambda name: self.seed(FACTS, name),
        )
        self._facts = (*(one for one in self._facts if one not in structures), *said)
        self._plans[FACTS] = tuple(case for broken in found for case in (base, broken))
        sliced = slice_cases(
            self._problem,
            base,
            facts,
            most=_MOST_SLICES[self._profile],
            runs=runs,
            run=run,
            inputs=self.inputs,
            seed=lambda name: self.seed(SLICES, name),
        )
        if sliced:
            self._plans[SLICES] = (base, *sliced)

    def _own_facts(
        self,
        base: Case,
        runs: Sequence[Mapping[str, torch.Tensor | Scalar]],
        generator: Callable[..., Mapping[str, object]],
    ) -> Iterator[Known]:
        """Yield what holds in all of the generator's `runs` at the sizes of a case."""
        looks = [Look(values=run, sizes=base.axes) for run in runs]
        if (wider := self._wider(base)) is not None:
            looks.append(Look(values=self.inputs(wider), sizes=wider.axes))
        known = {one.fact for one in self._facts}
        yield from (one for one in value_facts(self._problem, looks) if one.fact not in known)
        del looks
        scalars = dict(base.scalars)
        for group in related_inputs(
            lambda: generator({**base.axes, **scalars}, torch.device(self._device))
        ):
            yield Known(
                fact=Related(inputs=tuple(sorted(group))),
                evidence=Evidence(source=Source.INPUTS, count=1),
            )

    def _wider(self, base: Case) -> Case | None:
        """Return the problem's own values at larger sizes than `base`, where they cost little.

        At those of its smallest workload, or some times the sizes of `base`. Constant axes may
        make every case large: one that is not twice as large as `base` costs no more than it.
        """
        listed = [workload_sizes(self._problem, one) for one in self._problem.workloads]
        least = min(listed, key=lambda sizes: elements(self._problem, sizes))
        grown = (
            with_sizes(
                self._problem,
                base.axes,
                {
                    axis.name: max(size, min(times * size, least[axis.name]))
                    for axis in self._problem.var_axes()
                    if (size := base.axes[axis.name])
                },
            )
            for times in _WIDER
        )
        kind = "cuda" if self._device.startswith("cuda") else "cpu"
        most = max(_WIDE_ELEMENTS[kind], 2 * elements(self._problem, base.axes))
        for sizes in (least, *grown):
            if sizes == base.axes or elements(self._problem, sizes) > most:
                continue
            case = own_case(
                self._problem, sizes, seed=self.seed(FACTS, "wider"), label="own values"
            )
            if self._acceptor is not None and (found := self._acceptor.settle(case)) is not None:
                return found
        return None

    def has_room(self, case: Case, *, truth: bool = True) -> bool:
        """Whether judge and workers have room for a case in the planned memory.

        Without `truth` where its answer is held against the reference as written.
        """
        return self._room.holds(self._problem, case, truth=truth)

    def work(self, case: Case) -> int:
        """Return the elements and multiply-adds of one call of the reference on a case."""
        return self._room.work(self._problem, case.axes)

    def to_make(self, case: Case) -> Case | None:
        """Return a case of the problem's own inputs, smaller where they have no room or time.

        None where the reference takes no smaller one.
        """
        if self._room.holds_inputs(self._problem, case):
            return case
        return self._room.smaller(self._problem, case, settle=self._settle)

    def _within_memory(self, purpose: str, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        """Return the cases that have room in the planned memory, the others made smaller.

        Of those that a check cannot do without, the smallest stays whatever it needs.
        """
        found: list[Case] = []
        large: list[Case] = []  # as small as they can be
        pairs = purpose == "arguments"  # a base and the same with one argument moved
        for number, case in enumerate(cases):
            if self.has_room(case):
                found.append(case)
                continue
            if purpose in _BY_SIZE:
                continue  # a smaller one says nothing new
            instead = self._room.smaller(
                self._problem, case, keep=self._lengthened(purpose, case), settle=self._settle
            )
            if instead is not None and self.has_room(instead):
                found.append(instead)
                if case.benchmark:
                    self._room.note(self._problem, case, instead)
            elif pairs:
                return tuple(found[: number - number % 2])
            else:
                large.append(instead or case)
        if found or not large or purpose not in (*_NEEDED, "benchmark"):
            return tuple(found)
        least = min(large, key=lambda case: self._room.need(self._problem, case).total)
        self._possible(least)
        self._room.note(self._problem, least, None)
        needed = self._room.need(self._problem, least).total
        self._booking.take(booked_bytes(needed))
        self._cap.allow(needed)
        return (least,)

    def learn_uses(self) -> None:
        """Run the reference to see what it does with its inputs, once."""
        if not self._uses_known:
            self._uses_known = True
            problem, used = with_uses(self._problem, self._reference, device=self._device)
            self._facts = (*self._facts, *used)
            self._take(problem)

    def learn_values(self, case: Case) -> None:
        """Learn what inputs are from the problem's own values of a case.

        What they seemed to be is given up where these contradict it.
        """
        values = self.inputs(case)
        if self._problem.origin == "native":
            return
        other = dataclasses.replace(case, seed=self.seed("generator", "again"))
        problem, found = without_contradicted(
            self._problem, values, case.axes, again=lambda: self.inputs(other)
        )
        if problem != self._problem:
            self._facts = (*self._facts, *found)
            self._take(problem)
            self._plans.clear()

    def settled(self, case: Case) -> Case | None:
        """Return a case as the reference accepts it; None where it refuses it."""
        return self._settle(case)

    def _possible(self, case: Case) -> None:
        """Raise CannotJudgeError where inputs and outputs alone are more than all the memory."""
        held, total = all_bytes(self._problem, case.axes), total_bytes(self._device)
        if held > total:
            where = "GPU" if self._device.startswith("cuda") else "machine"
            listed = ", ".join(f"{name}={size}" for name, size in case.axes.items())
            raise CannotJudgeError(
                f"the smallest case that the reference accepts ({listed}) has inputs and outputs "
                f"of {held / 2**30:,.0f} GiB, and this {where} has {total / 2**30:,.0f} GiB: "
                "correct the problem's axes, or give smaller workloads"
            )

    def too_large(self, case: Case) -> CannotJudgeError:
        """Return why a case that was given all the memory there was ran out of it."""
        needed, has = self._room.need(self._problem, case).total, total_bytes(self._device)
        where = "GPU" if self._device.startswith("cuda") else "machine"
        listed = ", ".join(f"{name}={size}" for name, size in case.axes.items())
        return CannotJudgeError(
            f"the smallest case that the reference accepts ({listed}) needs about "
            f"{needed / GIB:,.0f} GiB, and this {where} has {has / GIB:,.0f} GiB, of which "
            f"{available_bytes(self._device) / GIB:,.0f} are free: no verdict; judge it on a "
            "larger one, or give smaller workloads"
        )

    def _settle(self, case: Case) -> Case | None:
        return case if self._acceptor is None else self._acceptor.settle(case)

    def _lengthened(self, purpose: str, case: Case) -> tuple[str, ...]:
        """Return the axis that a case was made to lengthen: it is not shortened again."""
        if purpose != "hot":
            return ()
        return (max(self._problem.var_axes(), key=lambda axis: case.axes[axis.name]).name,)

    def _own(self, purpose: str) -> tuple[Case, ...]:
        """Return cases of the problem's own workloads, the smallest first."""
        workloads = sorted(
            self._problem.workloads,
            key=lambda w: elements(self._problem, resolve(self._problem.axes, w.axes)),
        )
        count = {"small": 1}.get(purpose, 2)
        return tuple(
            Case(
                label=f"{purpose}: workload {workload.id}",
                axes=resolve(self._problem.axes, workload.axes),
                scalars=self._problem.usual_state,
                seed=self.seed("own", purpose, workload.id),
                benchmark=True,
                workload=workload.id,
            )
            for workload in workloads[:count]
        )

    def use_own_cases_alone(self) -> None:
        """Give up every case of ours: the reference, or the kernel, refused even the smallest."""
        self._own_alone = True
        self._plans.clear()

    @property
    def judges_own_cases(self) -> bool:
        """Whether every case of ours was given up."""
        return self._own_alone

    def keep_listed_sizes(self, condition: str) -> None:
        """Judge the workloads' sizes alone from now on: the kernel refuses every other one."""
        self._listed_condition = condition
        self.use_own_cases_alone()

    @property
    def listed_condition(self) -> str:
        """Which sizes the kernel takes alone, '' where it takes others."""
        return self._listed_condition

    def keep_built_sizes(self) -> None:
        """Let a module be built with the problem's own sizes alone, in every case from now on."""
        listed = self._problem.workloads[0].axes
        sizes = ", ".join(f"{name}={listed[name]}" for name in self._problem.built)
        self._built_condition = (
            f"built: judged with {sizes} alone, as the problem builds the module; built with other "
            "sizes, which the reference accepts, the kernel fails or is wrong"
        )
        self._take(self._problem.as_built())
        self._plans.clear()

    @property
    def built_condition(self) -> str:
        """What a module's constructor has to be told, '' where the kernel follows what it is."""
        return self._built_condition

    def take_state_from(self, source: StateSource) -> None:
        """Let a module take its state from `source` in every case from now on."""
        self._take(self._problem.with_state_from(source))
        known = tuple(
            dataclasses.replace(case, scalars={**case.scalars, **self._problem.usual_state})
            for case in self._plans.get("known", ())
        )
        self._plans = {"known": known} if known else {}

    def learn_everything(self) -> None:
        """Learn every axis and break every fact, needed for a trial or not."""
        self._break_inputs()
        if self._acceptor is not None and not any(
            isinstance(known.fact, SizeFact) for known in self._facts
        ):
            learnt = learn_sizes(self._acceptor)[1]
            self._facts = (*learnt, *self._facts)

    @property
    def memory_gib(self) -> float | None:
        """The GPU memory that cases are planned for; None where it is not limited."""
        return self._memory_gib

    @property
    def plan_conditions(self) -> tuple[str, ...]:
        """What had no room in the planned memory or no time, or was never judged."""
        found = list(self._room.conditions)
        if self._cut_short:
            short = ", ".join(sorted(self._cut_short))
            allowed = f"{self._room.check_s:g} s at {self._profile.value}"
            found.append(
                f"time: {short} did not run all scenarios: with this reference they take longer "
                f"than a check may ({allowed}, counted); a larger profile allows more"
            )
        found += [
            f"ill-conditioned: output '{name}' was judged for gross errors alone: everywhere {why}"
            for name, why in self._never_judged.items()
        ]
        return tuple(found)

    @property
    def facts(self) -> tuple[Known, ...]:
        """What was learnt of the problem by experiment so far."""
        return self._facts

    @property
    def tried(self) -> tuple[Tried, ...]:
        """Sizes and values that were tried on the reference, and why it refused some."""
        return () if self._acceptor is None else tuple(self._acceptor.tried)

    def _states(self, kind: str) -> tuple[Case, ...]:
        """Return what the kernel's site sees in a training or decoding loop."""
        from cuassay.loops import states  # with torch's compiler: a second that few trials need

        if kind not in self._plans:
            self._plans[kind] = tuple(
                states.plan(
                    self._problem,
                    kind,
                    profile=self._profile,
                    seed=self.seed("loop", kind),
                    device=self._device,
                )
            )
        return self._plans[kind]

    def preset(self, purpose: str, cases: tuple[Case, ...]) -> None:
        """Make `cases(purpose)` return these instead of what the planner would plan."""
        self._plans[purpose] = cases

    def inputs(self, case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        """Return fresh inputs of a case, in the order of the problem's inputs."""
        if case.state is not None:
            from cuassay.loops import states

            return states.inputs(self._problem, case.state, self._device)
        return self._capped(
            lambda: case_inputs(self._problem, case, device=self._device, reference=self._reference)
        )

    def as_written(self, values: Sequence[torch.Tensor | Scalar]) -> tuple[torch.Tensor, ...]:
        """Run the reference as written; its outputs in the problem's order."""
        names = [spec.name for spec in self._problem.outputs]
        return self._capped(lambda: run_as_written(self._reference.call, values, names=names))

    def exact(self, case: Case) -> tuple[torch.Tensor, ...]:
        """Run the reference once in float64; its outputs in the problem's order."""
        self._spend(case, "exact", 1)
        names = [spec.name for spec in self._problem.outputs]
        values = list(self.inputs(case).values())
        return self._capped(lambda: lift(self._reference.call, values, names=names))

    def magnitudes(self, case: Case) -> tuple[float, ...]:
        """Return the largest magnitude of each floating input and of what each operation makes."""
        self._spend(case, "magnitudes", 1)
        values = list(self.inputs(case).values())
        return self._capped(lambda: magnitudes(self._reference.call, values))

    def truth(self, case: Case, precision: Precision = Precision.STRICT) -> Truth:
        """Return truth and achievable error of a case (cached). Raises CannotJudgeError.

        The error is that of a family of trusted kernels.
        """
        self._spend(case, f"truth {precision}", _JUDGED_RUNS)
        return self._made(case, _key(self._values(case), precision), precision=precision)

    def rough(self, case: Case) -> Truth:
        """Return truth with the fewest draws, or the full one where that is made already.

        Its achievable error is as large as that of the full one, and less certain.
        """
        self._spend(case, "rough", _JUDGED_RUNS)
        key = self._values(case)
        return self._made(case, key if key in self._truths else f"{key} rough", draws=_ROUGH_DRAWS)

    def first_truth(self, case: Case) -> Truth:
        """Return the truth that tells whether a case decides anything; rough where runs are long.

        Rough truth takes half as long, and what it shows to be right needs no other.
        """
        heavy = self._room.truth_s(self._problem, case) > _HEAVY_S
        return self.rough(case) if heavy else self.truth(case)

    def near_share(self, case: Case, run: Run, items: Iterable[ResultItem]) -> float | None:
        """Return the part of the reference's own error that an answer as near to truth uses.

        None where it is not seen to be so near: ask `explains` or `compare`. Where truth is made
        already, that tells more.
        """
        key, items = self._values(case), tuple(items)
        if self._right is not None and self._right[0]() is run:
            seen = self._right[1].get((key, items))
            if seen is not None and seen.share is not None:
                return seen.share
        if key in self._truths or f"{key} rough" in self._truths:
            return None
        if self._unexplained > _ROUGH_FAILURES:
            return None
        share = self._near_share(case, run, items)
        if share is not None:
            self._note_right(run, key, items, _Explained(share=share))
        return share

    def explains(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[Comparison, ...] | None:
        """Return what shows an answer to be right without a full truth; None: ask `compare`.

        Most answers of a trial are right, and a full truth takes the reference ten times and
        more. As near to truth as the reference as written is right; else rough truth is asked.
        """
        key, items = self._values(case), tuple(items)
        if self._right is not None and self._right[0]() is run and (key, items) in self._right[1]:
            return self._right[1][key, items].comparisons
        if self.near_share(case, run, items) is not None:
            return ()
        if key in self._truths or self._unexplained > _ROUGH_FAILURES:
            return None
        truth = self.rough(case)
        self._unexplained += 1
        if truth.ill_conditioned:
            self._unexplained -= 1
            return None
        started = time.perf_counter()
        with self.timeline.span(Lane.COMPARE, _sizes(case)):
            found = _held(self._tensors(run, items, truth), truth)
        self.compare_s += time.perf_counter() - started
        if not all(one.passed and not one.undecided for one in found):
            return None
        self._unexplained -= 1
        self._note_right(run, key, items, _Explained(comparisons=found))
        return found

    def decides(self, case: Case) -> bool:
        """Whether truth of a case decides anything; where rough truth says no, it does not."""
        rough = self._truths.get(f"{self._values(case)} rough")
        if rough is not None and rough.ill_conditioned:
            return False
        return not self.first_truth(case).ill_conditioned

    def _note_right(
        self, run: Run, key: str, items: tuple[ResultItem, ...], explained: _Explained
    ) -> None:
        if self._right is None or self._right[0]() is not run:
            self._right = (weakref.ref(run), {})
        self._right[1][key, items] = explained

    def _near_share(self, case: Case, run: Run, items: Iterable[ResultItem]) -> float | None:
        """Return the part of its own error that an answer as near as the reference's uses.

        None beyond it; 0 for what has bits that were so near, or the reference's own: a copy, a
        gather, a kernel that calls the same functions.
        """
        if self._beyond_own >= _BEYOND_OWN:
            return None
        started = time.perf_counter()
        share, key = math.inf, self._values(case)
        got: list[torch.Tensor] | None = None

        def take(shapes: Iterable[Sequence[int]]) -> bool:
            """Look at the answer's tensors; return whether it has nothing else."""
            nonlocal got
            found = matched(self._problem, [tuple(shape) for shape in shapes], run, items)
            tensors = [one for one in found if isinstance(one, torch.Tensor)]
            got = tensors if len(tensors) == len(found) else None
            return got is not None

        def has_bits_of(written: Sequence[torch.Tensor]) -> bool:
            return take(one.shape for one in written) and all(
                _same_bits(one.to(own.device), own)
                for one, own in zip(got or (), written, strict=True)
            )

        if shapes := self._near.shapes(key):
            with self.timeline.span(Lane.COMPARE, f"bits, {_sizes(case)}"):
                share = 0.0 if take(shapes) and self._near.has(key, got or ()) else math.inf
        if share:
            self._make_room(case)
            with self.timeline.span(Lane.TRUTH, f"its own error, {_sizes(case)}"):
                owns = self._own_errors(case, suffices=has_bits_of)
                if take(own.written.shape for own in owns):
                    share = 0.0
                    for one, own in zip(got or (), owns, strict=True):
                        share = max(share, own.share(one))
                        if share > 1.0:
                            break
            if share <= 1.0:
                self._near.add(key, got or ())
        self.truth_s += time.perf_counter() - started
        near = share <= 1.0
        self._beyond_own = max(0, self._beyond_own - 1) if near else self._beyond_own + 1
        return share if near else None

    def moves(self, first: Case, second: Case) -> bool:
        """Whether the reference's answers to two cases differ by far more than it errs itself.

        A wrong False or True costs a plan some of its power, and no verdict: no truth is made.
        """
        for case in (first, second):
            self._spend(case, "own error", 2)
        started = time.perf_counter()
        with self.timeline.span(Lane.TRUTH, f"what moves it, {_sizes(second)}"):
            before, after = self._own_errors(first), self._own_errors(second)
            far = any(old.is_far_from(new) for old, new in zip(before, after, strict=True))
        self.truth_s += time.perf_counter() - started
        return far

    def _own_errors(
        self,
        case: Case,
        *,
        suffices: Callable[[Sequence[torch.Tensor]], bool] = lambda written: False,
    ) -> tuple[OwnError, ...]:
        """Return the reference's own errors on a case, kept where they are small.

        Of one case a trial asks for many answers: what earlier calls returned is looked at again.
        Where what the reference returns `suffices`, that alone.
        """
        key = self._values(case)
        if key in self._owns:
            self._owns.move_to_end(key)
            return self._owns[key]
        said: list[bool] = []

        def noted(written: Sequence[torch.Tensor]) -> bool:
            said.append(suffices(written))
            return said[-1]

        made = self._capped(
            lambda: own_errors(
                self._reference.call,
                list(self.inputs(case).values()),
                self._problem.outputs,
                seed=derive(case.seed, "truth"),
                accumulation=self._problem.accumulation,
                suffices=noted,
            )
        )
        if any(said):
            return made
        self._owns[key] = made
        while sum(own.nbytes for owns in self._owns.values() for own in owns) > _OWN_BYTES:
            self._owns.popitem(last=False)
        return made

    def _tensors(
        self, run: Run, items: Iterable[ResultItem], truth: Truth
    ) -> list[torch.Tensor | str]:
        shapes = [tuple(output.value.shape) for output in truth.outputs]
        return list(matched(self._problem, shapes, run, items))

    def _made(
        self,
        case: Case,
        key: str,
        *,
        precision: Precision = Precision.STRICT,
        draws: int | None = None,
    ) -> Truth:
        if key in self._truths:
            self._truths.move_to_end(key)
            truth = self._truths[key]
            self.kinds[truth.kind] = truth.reason
            return truth
        truth = self._once(
            key, case, _sizes(case), lambda: self._made_truth(case, precision, draws)
        )
        self.kinds[truth.kind] = truth.reason
        return truth

    def _once(self, key: str, case: Case, what: str, make: Callable[[], Truth]) -> Truth:
        """Return and keep a truth that this side asks for the first time."""
        truth = self._made_by_all.get(key)
        if truth is None:
            started = time.perf_counter()
            self._make_room(case)
            if self._needs_all:  # as the truths before it
                self.end_idle()
            with self.timeline.span(Lane.TRUTH, what):
                truth = self._capped(make)
            self.truth_s += time.perf_counter() - started
        self._truths[key] = self._made_by_all[key] = truth
        self._evict()
        return truth

    def _capped(self, make: Callable[[], T]) -> T:
        """Return what `make` returns; where our own cap leaves it no memory, the cap gives way."""
        while True:
            try:
                made = make()
            except torch.OutOfMemoryError:
                if not self.relieve() and not self.end_idle():
                    raise
                self._needs_all = self.is_large
            else:
                self._cap.give_back()
                return made

    def relieve(self) -> bool:
        """Make room after memory ran out; return whether our own cap ended it, and gave way.

        First what is kept is let go. Only what does not fit then shows that the plan was wrong,
        and the cap gives way within limits: of a smallest case (`all_memory`) no plan keeps a
        trial, and larger ones of ours are not worth what others need.
        """
        capped = self._cap.active
        if not any(self._kept_by_all) and not self._owns:
            capped = self._cap.widen()
        for kept in self._kept_by_all:
            kept.clear()
        self._owns.clear()
        self._near = KnownAnswers(_NEAR_BYTES)
        if self._device.startswith("cuda"):
            torch.cuda.empty_cache()
        return capped

    @contextmanager
    def all_memory(self) -> Iterator[None]:
        """Wait for all of the GPU's memory, and let the judge take what it needs of it."""
        self.relieve()
        self._booking.take(total_bytes(self._device))
        with self._cap.lifted():
            yield

    def _relieve_for(self, case: Case) -> bool:
        """Make room to try a case; only where the least there is fills the plan, beyond it."""
        if any(self._kept_by_all) or self._owns:
            return self.relieve()
        room = self._room.bytes
        fills = room is None or _FILLED * all_bytes(self._problem, case.axes) > room
        return fills and self.relieve()

    def _made_truth(self, case: Case, precision: Precision, draws: int | None) -> Truth:
        inputs = self.inputs(case)
        return make_truth(
            self._reference.call,
            list(inputs.values()),
            self._problem.outputs,
            seed=derive(case.seed, "truth"),
            accumulation=self._problem.accumulation,
            draws=draws,
            index_hits=self._hits(case, inputs),
            family=family_of(precision, self._problem.low_type),
            budget_bytes=self._room.bytes,
        )

    def _make_room(self, case: Case) -> None:
        """Let go of kept truths until one of `case` has room beside the others.

        Those that are next to nothing beside their inputs stay: what a case holds that fills the
        plan by itself is weights, and each of its truths takes long.
        """
        room = self._room.bytes
        if room is None or not self._truths or self._room.is_small(self._problem, case):
            return
        left = max(room - self._room.need(self._problem, case).judge, room // _ALWAYS_KEPT)
        while self._truths and self._kept_bytes > left:
            self._truths.popitem(last=False)

    @property
    def _kept_bytes(self) -> int:
        """The bytes of all kept truths, those of the sides beside too."""
        return sum(map(truth_bytes, self._made_by_all.values()))

    def gradients(
        self,
        case: Case,
        outputs: Sequence[str],
        *,
        upstream: Upstream,
        seed: int,
        precision: Precision = Precision.STRICT,
    ) -> Truth:
        """Return the right gradients of a case's floating inputs (cached), each `grad_<input>`.

        Those of `outputs`, with upstream gradients as a Backward step draws them. Raises
        CannotJudgeError; NothingToCheckError where the reference cannot be differentiated.
        """
        self._spend(case, "gradients", _JUDGED_RUNS)
        asked = f"gradients of {' '.join(outputs)} {upstream is Upstream.ONES} {seed}"
        key = _key(f"{self._values(case)} {asked}", precision)
        if key in self._truths:
            return self._truths[key]
        return self._once(
            key,
            case,
            f"gradients, {_sizes(case)}",
            lambda: gradients.truth_of(
                self._problem,
                self._reference.call,
                case,
                self.inputs(case),
                outputs=outputs,
                upstream=upstream,
                seed=seed,
                precision=precision,
            ),
        )

    def dependence(self, case: Case) -> Mapping[str, torch.Tensor]:
        """Return, by floating input, a gradient that is 0 where no floating output depends on it.

        Raises as `gradients`.
        """
        self._spend(case, "dependence", 2)
        return self._capped(
            lambda: gradients.dependence(
                self._problem, self._reference.call, case, self.inputs(case)
            )
        )

    def answers(self, case: Case) -> list[torch.Tensor]:
        """Return the right answers of a case in the outputs' own dtypes."""
        return [
            output.value.to(getattr(torch, spec.dtype.value))
            for output, spec in zip(self.rough(case).outputs, self._problem.outputs, strict=True)
        ]

    def compare(
        self,
        case: Case,
        run: Run,
        items: Iterable[ResultItem],
        *,
        precision: Precision | None = None,
        grade: bool = False,
    ) -> tuple[Comparison, ...]:
        """Compare what a call on `case` returned with truth, one Comparison per output.

        With the least family of trusted kernels that the policy accepts and that explains the
        error; with `precision` by that family alone. With `grade` the first failure beyond the
        policy is held against all families: what explains it is the kernel's grade.
        """
        truth = self.truth(case, precision or Precision.STRICT)
        started, made_s = time.perf_counter(), self.truth_s
        with self.timeline.span(Lane.COMPARE, _sizes(case)):
            tensors = self._tensors(run, items, truth)
            found = _held(tensors, truth)
        if precision is None:
            found = self._least(case, tensors, found, grade=grade)
        self.compare_s += time.perf_counter() - started - (self.truth_s - made_s)
        return found

    def note(self, judgement: Judgement) -> None:
        """Take note of what a run of the candidate showed of the precision that it keeps."""
        self.graded = self.graded or any(map(is_wrong, judgement.comparisons))
        for case in judgement.lowered:
            self._lowered.setdefault(serial.dumps(case), case)

    @property
    def lowered(self) -> tuple[Case, ...]:
        """The cases on which a kernel passed by a family wider than `strict`, the first first."""
        return tuple(self._lowered.values())

    def _least(
        self,
        case: Case,
        tensors: Sequence[torch.Tensor | str],
        found: tuple[Comparison, ...],
        *,
        grade: bool,
    ) -> tuple[Comparison, ...]:
        """Return the comparisons with the least families that explain them."""
        accepted = self._problem.policy.families
        least = [self._in_family(case, tensors, found, n, accepted) for n in range(len(found))]
        failed = [n for n, one in enumerate(least) if is_wrong(one)]
        if failed and grade and accepted != tuple(Precision):
            try:
                beyond = self._in_family(case, tensors, found, failed[0], tuple(Precision))
            except (CuassayError, RuntimeError):  # a grade stands beside the verdict
                return tuple(least)
            least[failed[0]] = dataclasses.replace(least[failed[0]], precision=beyond.precision)
        return tuple(least)

    def _in_family(
        self,
        case: Case,
        tensors: Sequence[torch.Tensor | str],
        found: Sequence[Comparison],
        number: int,
        families: Sequence[Precision],
    ) -> Comparison:
        got = tensors[number]
        if isinstance(got, str):
            return found[number]

        # What is wrong of an ill-conditioned output is so beyond reason, in a wider family too.
        judged = compare if self.truth(case).outputs[number].ill_conditioned else measure

        def measured(family: Precision) -> Comparison:
            output = self.truth(case, family).outputs[number]
            made = judged(got, output)
            if made.passed and output.ill_conditioned:
                return dataclasses.replace(made, share=0.0, undecided=output.ill_conditioned)
            return made

        return least_family(found[number], measured, families)

    def _regimes(self) -> tuple[str, ...]:
        """Return the regimes that this problem needs most, where they are known."""
        known = None if self._isolated else selection.read_selection(self._problem)
        return known.regimes if known else ()

    def _hits(
        self, case: Case, inputs: Mapping[str, torch.Tensor | Scalar]
    ) -> Mapping[str, torch.Tensor]:
        """Return, per index-addressed output, how often each of its rows is hit."""
        sizes = resolve(self._problem.axes, case.axes)
        hits: dict[str, torch.Tensor] = {}
        for name, outputs in self._problem.index_inputs.items():
            ids = inputs.get(name)
            for spec in self._problem.outputs:
                if spec.name in outputs and isinstance(ids, torch.Tensor):
                    hits[spec.name] = _counts(ids, spec, sizes)
        return hits

    def _evict(self) -> None:
        limit = _CACHE_BYTES["cuda" if self._device.startswith("cuda") else "cpu"]
        if self._memory_gib is not None:
            limit = min(limit, int(self._memory_gib / _CACHE_SHARE * 2**30))
        while len(self._truths) > 1 and self._kept_bytes > limit:
            self._truths.popitem(last=False)


def _sizes(case: Case) -> str:
    return " ".join(f"{name}={size}" for name, size in case.axes.items())


def _key(what: str, precision: Precision) -> str:
    return what if precision is Precision.STRICT else f"{what} {precision}"


def _counts(ids: torch.Tensor, spec: TensorSpec, sizes: Mapping[str, int]) -> torch.Tensor:
    rows = sizes.get(spec.shape[0], 0) if spec.shape else 0
    legal = ids[(ids >= 0) & (ids < rows)].reshape(-1).long()
    return torch.bincount(legal, minlength=rows)


def _same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(torch.equal(raw_bytes(first), raw_bytes(second)))


def _held(tensors: Iterable[torch.Tensor | str], truth: Truth) -> tuple[Comparison, ...]:
    """Hold every output, or why there is none, against truth."""
    return tuple(
        _mismatched(output.name, got) if isinstance(got, str) else compare(got, output)
        for got, output in zip(tensors, truth.outputs, strict=True)
    )


def _mismatched(output: str, why: str) -> Comparison:
    return Comparison(output=output, passed=False, share=math.inf, mismatch=why)
